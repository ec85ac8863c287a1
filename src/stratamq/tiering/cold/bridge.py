"""Threads that wait for what runs on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent import futures
from typing import Any, TypeVar

from stratamq.model.errors import Closed, StoreUnavailable

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class Bridge:
    """Starts coroutines on a loop, from any other thread. After `close` nobody waits any more: what
    was under way is cancelled, and ends with Closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_ms: int) -> None:
        self._loop, self._timeout_s = loop, timeout_ms / 1000
        self._lock = threading.Lock()
        self._pending: set[futures.Future[Any]] = set()
        self._closed = False

    def start(self, work: Work[T]) -> futures.Future[T]:
        with self._lock:
            if self._closed or self._loop.is_closed():
                raise Closed("history is being shut down")
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
            self._pending.add(future)
        future.add_done_callback(self._done)
        return future

    def wait(self, future: futures.Future[T]) -> T:
        """Its result; StoreUnavailable when it takes too long."""
        try:
            return future.result(self._timeout_s)
        except futures.CancelledError:
            raise Closed("history is being shut down") from None
        except futures.TimeoutError:
            future.cancel()
            raise StoreUnavailable(
                f"the store did not answer within {self._timeout_s:g} s"
            ) from None

    def call(self, work: Work[T]) -> T:
        return self.wait(self.start(work))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            pending = list(self._pending)
        for future in pending:
            future.cancel()

    def _done(self, future: futures.Future[Any]) -> None:
        with self._lock:
            self._pending.discard(future)
