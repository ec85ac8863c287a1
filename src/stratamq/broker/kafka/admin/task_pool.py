"""Work for administrators, which clients wait for only so long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from stratamq.broker.kafka.turns import paced

Item = TypeVar("Item")
Answer = TypeVar("Answer")

AT_ONCE = 8
"""Items of all requests that are worked on at the same time, unless a pool has a limit of its own;
the others wait."""

REQUESTS_MAX = 64
"""Requests under way, also those whose clients have given up. When the limit is reached, the next
request waits."""


class TaskPool:
    """Does what a request asks for, item by item, for clients that may give up waiting.

    As in Kafka, a client that runs out of time gets REQUEST_TIMED_OUT, and the work goes on: it may
    still succeed. A request that had to wait for longer than its time is not begun. `stop` cancels
    work that is under way; the next start finishes or undoes it.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = asyncio.Semaphore(REQUESTS_MAX)
        self._slots = asyncio.Semaphore(at_once)

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
        if await self._admitted(deadline):
            task = asyncio.create_task(self._work(enumerate(items), act, done))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            left_s = None if deadline is None else max(deadline - loop.time(), 0)
            await asyncio.wait([task], timeout=left_s)
            if task.done() and not task.cancelled():
                task.result()  # raises what is a bug
        return [
            done[at] if at in done else late(item) async for at, item in paced(enumerate(items))
        ]

    async def _admitted(self, deadline: float | None) -> bool:
        if not self._requests.locked():
            return await self._requests.acquire()
        try:
            async with asyncio.timeout_at(deadline):
                return await self._requests.acquire()
        except TimeoutError:
            return False

    async def _work(
        self,
        items: Iterator[tuple[int, Item]],
        act: Callable[[Item], Awaitable[Answer]],
        done: dict[int, Answer],
    ) -> None:
        async def worker() -> None:
            async for at, item in paced(items):
                async with self._slots:
                    done[at] = await act(item)

        async with asyncio.TaskGroup() as workers:
            for _ in range(self._at_once):
                workers.create_task(worker())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._requests.release()
        if not task.cancelled():
            task.exception()  # marked as seen; `each` raises it where its caller still waits

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
