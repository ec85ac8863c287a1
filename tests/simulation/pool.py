"""The I/O pool without threads: real batching and real commits, at moments by seed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from stratamq.engine.group import Group
from stratamq.engine.pool import IOPool, Lane, Request
from tests.simulation.loop import SimLoop

T = TypeVar("T")


class _Queue:
    """Of one worker, which is woken by the first request."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._requests: deque[Request | None] = deque()
        self._wake = wake

    def put(self, request: Request | None) -> None:
        self._requests.append(request)
        self._wake()

    def get(self) -> Request | None:
        return self._requests.popleft()

    get_nowait = get

    def qsize(self) -> int:
        return len(self._requests)


class SimPool(IOPool):
    """A worker takes its turn some time after it was woken, and is heard of later."""

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self._loop = self._time = loop
        self._busy: dict[Lane, None] = {}
        self._read: dict[asyncio.Future[object], None] = {}
        for lane in self._lanes:
            lane.queue = _Queue(lambda lane=lane: self._wake(lane))  # type: ignore[misc, assignment]

    def _wake(self, lane: Lane) -> None:
        if lane not in self._busy:
            self._busy[lane] = None
            self._time.call_later(self._time.chance.uniform(1e-5, 2e-4), self._work, lane)

    def _work(self, lane: Lane) -> None:
        first = lane.queue.get() if lane.queue.qsize() else None
        if first is None:
            del self._busy[lane]
            return
        served, groups = self._turn(lane, first)
        took_s = self._time.chance.uniform(1e-4, 5e-3)
        self._time.call_later(took_s, self._end_turn, lane, served, groups)

    def _end_turn(self, lane: Lane, served: Sequence[Request], groups: Sequence[Group]) -> None:
        self._deliver(lane, served, groups)
        self._work(lane)

    def call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future = self._time.run_in_executor(None, work)
        self._read[future] = None  # type: ignore[index]
        future.add_done_callback(self._read.pop)  # type: ignore[arg-type]
        return future

    async def drain(self) -> None:
        await super().drain()
        if self._read:
            await asyncio.wait(list(self._read))

    async def close(self) -> None:
        await self.drain()
