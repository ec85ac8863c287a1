"""Threads for reads that wait for an object store: one that hangs holds up nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent import futures
from typing import Any, TypeVar

from stratamq.model.errors import Closed

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long closing waits for reads under way. A history that is closed ends its own sooner."""


class ColdReaders:
    """The threads begin with the first read. Used from one event loop."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool: futures.ThreadPoolExecutor | None = None
        self._under_way: set[futures.Future[Any]] = set()
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """A caller that gives up leaves the line; a read that has begun goes on."""
        if self._closed:
            raise Closed("the engine is closed")
        if self._pool is None:
            self._pool = futures.ThreadPoolExecutor(self._threads, "stratamq-cold")
        reading = self._pool.submit(work)
        self._under_way.add(reading)
        reading.add_done_callback(self._under_way.discard)
        return await asyncio.wrap_future(reading)

    async def close(self) -> None:
        self._closed = True
        if self._pool is None:
            return
        self._pool.shutdown(wait=False, cancel_futures=True)
        if left := list(self._under_way):
            await asyncio.to_thread(futures.wait, left, PATIENCE_S)
