"""Work that clients wait for only so long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from stratamq.broker.kafka.turns import paced

Item = TypeVar("Item")
Answer = TypeVar("Answer")

AT_ONCE = 8
"""Items of all requests that are worked on at the same time; the others wait."""

REQUESTS_MAX = 64
"""Requests under way, also those that nobody waits for any more. Met: the next one waits."""


class Workshop:
    """Does what a request asks for, item by item, for clients that may give up waiting.

    As in Kafka, who runs out of time is told so, and the work goes on: it may still succeed. A
    request that found no place in its time is not begun. `stop` cancels what is under way; the next
    start finishes or undoes it.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(REQUESTS_MAX)
        self._hands = asyncio.Semaphore(AT_ONCE)

    async def each(
        self,
        items: Sequence[Item],
        act: Callable[[Item], Awaitable[Answer]],
        timeout_ms: int | None,
        late: Callable[[Item], Answer],
    ) -> list[Answer]:
        """The answer to every item, in order; `late` answers for those that are not done in time.
        None waits for all of them: only a stop of the node leaves some late."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + max(timeout_ms, 0) / 1000
        done: dict[int, Answer] = {}
        if await self._place_before(deadline):
            task = asyncio.create_task(self._work(enumerate(items), act, done))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            left_s = None if deadline is None else max(deadline - loop.time(), 0)
            await asyncio.wait([task], timeout=left_s)
            if task.done() and not task.cancelled():
                task.result()  # what is raised here is a bug, and must be heard
        return [
            done[at] if at in done else late(item) async for at, item in paced(enumerate(items))
        ]

    async def _place_before(self, deadline: float | None) -> bool:
        if not self._places.locked():
            return await self._places.acquire()
        try:
            async with asyncio.timeout_at(deadline):
                return await self._places.acquire()
        except TimeoutError:
            return False

    async def _work(
        self,
        items: Iterator[tuple[int, Item]],
        act: Callable[[Item], Awaitable[Answer]],
        done: dict[int, Answer],
    ) -> None:
        async def hand() -> None:
            async for at, item in paced(items):
                async with self._hands:
                    done[at] = await act(item)

        async with asyncio.TaskGroup() as hands:
            for _ in range(AT_ONCE):
                hands.create_task(hand())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._places.release()
        if not task.cancelled():
            task.exception()  # seen: whoever still waits is told as well

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
