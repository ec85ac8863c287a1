"""Work that clients wait for only so long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from stratamq.model.errors import TimedOut

T = TypeVar("T")

AT_ONCE = 8
"""Topics that are created, grown or deleted at the same time; the others wait."""


class Workshop:
    """Does work that its client may give up waiting for.

    As in Kafka, who runs out of time is told so, and the work goes on: it may still succeed. `stop`
    cancels what is under way; the next start finishes or undoes it.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._room = asyncio.Semaphore(AT_ONCE)

    async def within(self, timeout_ms: int, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(self._in_turn(work))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                return await asyncio.shield(task)
        except TimeoutError:
            raise TimedOut(f"it took longer than {timeout_ms} ms; it goes on") from None

    async def _in_turn(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with self._room:
                return await work
        finally:
            work.close()  # one that never had its turn would complain

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: whoever still waits is told as well

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
