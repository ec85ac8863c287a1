"""Work for administrators, which clients wait for only so long."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from stratamq.broker.kafka.turns import paced

Item = TypeVar("Item")
Answer = TypeVar("Answer")

AT_ONCE = 8
"""Slots for items of all requests that are worked on at the same time; the others wait."""

SLOT = 256
"""What a slot is divided into: items that are little work share one."""

WORKERS_MAX = 256
"""Items of one request that are worked on at the same time, where they share slots."""

REQUESTS_MAX = 64
"""Requests under way, also those whose clients have given up. When the limit is reached, the next
request waits."""


class Slots:
    """So many units, taken and given back; the first to wait is the first to get some."""

    def __init__(self, units: int) -> None:
        self._left = units
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def taken(self, units: int) -> AsyncIterator[None]:
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((units, given))
        self._give()
        try:
            await given
            yield
        finally:
            if given.cancelled():  # in time: none were given
                self._waiting = deque(one for one in self._waiting if one[1] is not given)
            else:
                self._left += units
            self._give()

    def _give(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._left:
            units, given = self._waiting.popleft()
            if not given.cancelled():
                self._left -= units
                given.set_result(None)


class TaskPool:
    """Does what a request asks for, item by item, for clients that may give up waiting.

    As in Kafka, a client that runs out of time gets REQUEST_TIMED_OUT, and the work goes on: it may
    still succeed. A request that had to wait for longer than its time is not begun. `stop` cancels
    work that is under way; the next start finishes or undoes it.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests = asyncio.Semaphore(REQUESTS_MAX)
        self._slots = Slots(AT_ONCE * SLOT)

    async def each(
        self,
        items: Sequence[Item],
        act: Callable[[Item], Awaitable[Answer]],
        timeout_ms: int | None,
        late: Callable[[Item], Answer],
        units: Callable[[Item], int] | None = None,
    ) -> list[Answer]:
        """The answer to every item, in order; `late` answers for those that are not done in time.
        None waits for all of them: only a stop of the node leaves some late. `units` says how much
        of a slot an item takes; without it, all."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + max(timeout_ms, 0) / 1000
        done: dict[int, Answer] = {}
        if await self._admitted(deadline):
            task = asyncio.create_task(self._work(items, act, units, done))
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
        items: Sequence[Item],
        act: Callable[[Item], Awaitable[Answer]],
        units: Callable[[Item], int] | None,
        done: dict[int, Answer],
    ) -> None:
        left = enumerate(items)

        async def worker() -> None:
            async for at, item in paced(left):
                wanted = SLOT if units is None else min(max(units(item), 1), SLOT)
                async with self._slots.taken(wanted):
                    done[at] = await act(item)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(len(items), AT_ONCE if units is None else WORKERS_MAX)):
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
