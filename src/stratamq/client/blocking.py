"""The client for threads: an event loop of its own, in a thread of its own.

with BlockingClient(options) as client:
    ends = client.call(client.asyncio.list_offsets({place: LATEST}))
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from stratamq.client.client import Client
from stratamq.client.options import ClientOptions

T = TypeVar("T")


class BlockingClient:
    """`asyncio` is the client itself; its calls are made by `call` and `start`.

    Safe to use from many threads. Nothing survives a fork: open one in each process.
    """

    def __init__(self, options: ClientOptions) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="stratamq-client", daemon=True)
        self._thread.start()
        try:
            self.asyncio = self.call(self._create(options))
        except BaseException:
            self._stop()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it."""
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Let it run; the future may be waited for later."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.call(self._close_all())
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def _create(self, options: ClientOptions) -> Client:
        """Create the client on its own loop, which its locks and timers belong to."""
        return Client(options)

    async def _close_all(self) -> None:
        """Close the client and cancel the calls under way, so that no thread waits for ever."""
        self.asyncio.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
