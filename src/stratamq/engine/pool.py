"""The I/O pool: a few threads write for all shards.

A worker blocks for the first request, drains what else is queued, groups it by shard, gives each
batch its offsets, commits once, and answers each request with its own offsets. So a thousand
waiting producers cost one write and one fsync, and a shard never has two writers.

Queues are bounded by requests and by bytes. A request that finds its queue full waits with its
producer and goes in when there is room, in order: nothing is refused and nothing grows.

Where nothing is under way, small batches that need not be synced take the short way: the event
loop commits what came in one of its turns itself.

The event loop counts what is under way and moves high watermarks; workers touch neither. A request
is handed over with one `put`, and a whole drain comes back with one call into the loop."""

from __future__ import annotations

import asyncio
import threading
import time
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Sequence
from concurrent import futures
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar
from zlib import crc32

from stratamq.engine.contract import AppendResult
from stratamq.engine.group import (
    Append,
    AppendReplica,
    Commit,
    Group,
    answer_future,
    answer_request,
    commit_all,
    save_producers,
)
from stratamq.engine.limits import WORKERS_MAX, EngineLimits
from stratamq.engine.shard import Shard
from stratamq.log.contract import Step
from stratamq.model.clock import Clock

T = TypeVar("T")

PIPELINED_BYTES = 1 << 20
"""A drain above this takes half of what is under way at most: while it is written, the event loop
answers and prepares the other half. Taking all would let each wait for the other in turn."""


LANES = WORKERS_MAX

SHORT_BYTES = 256 << 10
"""As much as comes in one turn of the event loop, finds no other before it and need not be synced
is written by the event loop itself: a write into the page cache takes less than waking a thread."""

SHORT_S = 0.02
PATIENCE_S = 0.25
"""Such a write that took longer than `SHORT_S` was held up by a busy disk. The workers do the
waiting for the next while."""


class Task:
    """Anything else that a shard's writer is to do: truncate, trim, roll, delete, rewrite."""

    __slots__ = ("answer", "future", "shard", "size_bytes", "work")

    def __init__(self, shard: Shard, work: Callable[[], Any]) -> None:
        self.shard, self.work = shard, work
        self.size_bytes = 0
        self.answer: Any = None
        self.future: Future[Any] | None = None

    def execute(self) -> None:
        try:
            with self.shard.lock:
                self.answer = self.work()
        except BaseException as error:  # a worker outlives whatever its work does
            self.answer = error


class Rest(Task):
    """What the event loop could not finish of a commit without waiting. The requests that it is
    about have their places in the lane until this is done."""

    __slots__ = ("groups", "requests")

    def __init__(
        self, shard: Shard, work: Step, requests: Sequence[Append], groups: Sequence[Group]
    ) -> None:
        super().__init__(shard, work)
        self.requests, self.groups = requests, groups

    def execute(self) -> None:
        super().execute()
        if isinstance(self.answer, BaseException):
            for request in self.requests:
                request.answer = self.answer
            for group in self.groups:
                group.error = group.error or self.answer


Request = Append | AppendReplica | Task


class Lane:
    """One worker's queue. All but `queue` belongs to the event loop."""

    __slots__ = ("bytes", "here", "queue", "requests", "short_from", "thread", "waiting")

    def __init__(self) -> None:
        self.here: list[Append] = []
        self.short_from = 0.0
        self.queue: SimpleQueue[Request | None] = SimpleQueue()
        self.requests = 0
        self.bytes = 0
        self.waiting: deque[Request] = deque()
        self.thread: threading.Thread | None = None


class IOPool:
    """See the module. Used from one event loop; `commit` is called on the workers' threads."""

    def __init__(
        self,
        commit: Commit,
        clock: Clock,
        limits: EngineLimits,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now_s` measures how long the event loop took for a commit."""
        self._commit, self._clock, self._limits, self._now_s = commit, clock, limits, now_s
        self._lanes = [Lane() for _ in range(limits.workers)]
        self._loop: AbstractEventLoop | None = None
        self._readers = futures.ThreadPoolExecutor(limits.reader_threads, "stratamq-read")
        self._reading: set[futures.Future[Any]] = set()
        self._idle: asyncio.Event | None = None
        """Set when a lane has nothing under way; there while `drain` waits for that."""

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for number, lane in enumerate(self._lanes):
            lane.thread = threading.Thread(
                target=self._work, args=(lane,), name=f"stratamq-write-{number}", daemon=True
            )
            lane.thread.start()

    # -- the event loop's side -----------------------------------------------------------------

    def append(self, request: Append | AppendReplica) -> Future[AppendResult]:
        request.future = future = self._future()
        if isinstance(request, Append):
            self.begin(request)
        else:
            self._submit(request)
        return future

    def begin(self, request: Append) -> None:
        """Where nothing is before it and no sync is promised, the request waits for the rest of
        this turn of the event loop: others may come, and one commit serves them all."""
        lane = self._lanes[request.shard.lane]
        size_bytes = request.size_bytes
        busy = request.shard.syncs or lane.requests != len(lane.here)
        if busy or (lane.requests and self._is_full(lane, size_bytes)):
            self._submit(request)
            return
        assert self._loop is not None, "started first"
        lane.requests += 1
        lane.bytes += size_bytes
        lane.here.append(request)
        if len(lane.here) == 1:
            self._loop.call_soon(self._serve_here, lane)

    def _future(self) -> Future[Any]:
        assert self._loop is not None, "started first"
        return self._loop.create_future()

    # -- the short way -------------------------------------------------------------------------

    def _serve_here(self, lane: Lane) -> None:
        """The lane's worker is idle and stays so: the next request passes these on first."""
        if not lane.here:
            return
        if not self._are_short(lane):
            self._pass_on(lane)
            return
        collected, lane.here = lane.here, []
        groups: list[Group] = []
        begin = self._now_s()
        left = self._append_all(collected, groups, waits=False)
        end = self._now_s()
        lane.short_from = end + PATIENCE_S if end - begin > SHORT_S else 0.0
        if left is None:
            self._deliver(lane, collected, groups)
            for group in groups:
                if group.saves_producers:
                    self._submit(Task(group.shard, partial(save_producers, [group.shard])))
        else:
            lane.queue.put(Rest(collected[0].shard, left, collected, groups))

    def _are_short(self, lane: Lane) -> bool:
        if lane.bytes > SHORT_BYTES or (lane.short_from and self._now_s() < lane.short_from):
            return False
        for request in lane.here:
            shard = request.shard
            epoch = shard.epoch if request.epoch is None else request.epoch
            timestamp = self._clock.now_ms() if shard.stamps else request.scan.max_timestamp
            if not shard.store.takes_at_once(lane.bytes, timestamp, epoch):
                return False
        return True

    def _pass_on(self, lane: Lane) -> None:
        """To the worker, before anybody who came later."""
        collected, lane.here = lane.here, []
        for request in collected:
            lane.queue.put(request)

    # -- the long way --------------------------------------------------------------------------

    def run(self, shard: Shard, work: Callable[[], T]) -> Future[T]:
        task = Task(shard, work)
        task.future = future = self._future()
        self._submit(task)
        return future

    def reads_here(self, shard: Shard) -> bool:
        return False

    def read(self, shard: Shard, work: Callable[[], T]) -> Future[T]:
        return self.call(work)

    def call(self, work: Callable[[], T]) -> Future[T]:
        reading = self._readers.submit(work)
        self._reading.add(reading)
        reading.add_done_callback(self._reading.discard)
        return asyncio.wrap_future(reading, loop=self._loop)

    def lane_of(self, name: str) -> int:
        """Which of LANES follows from the name alone; with fewer workers, each serves several.
        Files and rows know nothing of lanes: a node may be started with any count of workers."""
        return crc32(name.encode()) % LANES % len(self._lanes)

    def _submit(self, request: Request) -> None:
        lane = self._lanes[request.shard.lane]
        if lane.here:
            self._pass_on(lane)
        if lane.waiting or (lane.requests and self._is_full(lane, request.size_bytes)):
            lane.waiting.append(request)
        else:
            lane.requests += 1
            lane.bytes += request.size_bytes
            lane.queue.put(request)

    def _is_full(self, lane: Lane, size_bytes: int) -> bool:
        """Whether a lane that has requests takes no more. A request that is too large on its own
        goes through an empty lane."""
        limits = self._limits
        return lane.requests > 0 and (
            lane.requests >= limits.queue_requests_max
            or lane.bytes + size_bytes > limits.queue_bytes_max
        )

    def _deliver(self, lane: Lane, served: Sequence[Request], groups: Sequence[Group]) -> None:
        """A drain is done: readers may see it, others may come in, producers hear of it and may
        come again at once, behind those who waited."""
        for group in groups:
            group.publish()
        lane.requests -= len(served)
        for request in served:
            lane.bytes -= request.size_bytes
        if lane.waiting:
            self._admit(lane)
        for request in served:
            if isinstance(request, Task):
                answer_future(request.future, request.answer)
            else:
                answer_request(request)
        if self._idle is not None and not lane.requests:
            self._idle.set()

    def _admit(self, lane: Lane) -> None:
        waiting = lane.waiting
        while waiting and not self._is_full(lane, waiting[0].size_bytes):
            request = waiting.popleft()
            if request.future is not None and request.future.done():
                continue  # its caller was cancelled while it waited: it never came in
            lane.requests += 1
            lane.bytes += request.size_bytes
            lane.queue.put(request)

    async def drain(self) -> None:
        while any(lane.requests or lane.waiting for lane in self._lanes):
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()
        if self._reading:  # also for those whose callers gave up: they are still at it
            await asyncio.to_thread(futures.wait, list(self._reading))

    async def close(self) -> None:
        """Workers end after what is queued; so do readers."""
        await self.drain()
        for lane in self._lanes:
            lane.queue.put(None)
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        for lane in self._lanes:
            if lane.thread is not None:
                lane.thread.join()
        self._readers.shutdown()

    # -- the workers' side ---------------------------------------------------------------------

    def _work(self, lane: Lane) -> None:
        loop = self._loop
        assert loop is not None, "started first"
        while (first := lane.queue.get()) is not None:
            served, groups = self._turn(lane, first)
            loop.call_soon_threadsafe(self._deliver, lane, served, groups)

    def _turn(self, lane: Lane, first: Request) -> tuple[list[Request], list[Group]]:
        """Serve the first request and those queued after it: appends together, everything else in
        its turn. What `_deliver` is to be given."""
        drained = self._drain(lane, first) if lane.queue.qsize() else [first]
        groups: list[Group] = []
        appends: list[Append | AppendReplica] = []
        for request in drained:
            if isinstance(request, Task):
                self._append_all(appends, groups)
                appends = []
                request.execute()
            else:
                appends.append(request)
        self._append_all(appends, groups)
        if isinstance(first, Rest):  # it comes to an idle worker, so it is the first
            return [*first.requests, *drained[1:]], [*first.groups, *groups]
        return drained, groups

    def _drain(self, lane: Lane, first: Request) -> list[Request]:
        """The first request and those behind it. Only this thread takes out, so what `qsize` counts
        is there; the end mark comes when nothing else is queued."""
        limits, drained, size_bytes = self._limits, [first], first.size_bytes
        bytes_max = min(limits.drain_bytes_max, max(PIPELINED_BYTES, lane.bytes // 2))
        for _ in range(min(lane.queue.qsize(), limits.drain_requests_max - 1)):
            if size_bytes >= bytes_max:
                break
            request = lane.queue.get_nowait()
            assert request is not None, "the end mark comes last"
            drained.append(request)
            size_bytes += request.size_bytes
        return drained

    def _append_all(
        self,
        appends: Sequence[Append | AppendReplica],
        groups: list[Group],
        *,
        waits: bool = True,
    ) -> Step | None:
        """Commit them. Without `waits`, what is left to be done by a thread that may wait."""
        if not appends:
            return None
        shards: dict[Shard, None] = {}
        for request in appends:
            if request.shard not in shards:
                shards[request.shard] = None
                request.shard.lock.acquire()
        left = None
        try:
            now_ms = self._clock.now_ms()
            gathered, left = commit_all(appends, now_ms, self._commit, waits=waits)
            groups += gathered
            for group in gathered:
                if waits and group.saves_producers:
                    save_producers([group.shard])
        except BaseException as error:  # a worker outlives whatever its work does
            for request in appends:
                request.answer = error
        finally:
            for shard in shards:
                shard.lock.release()
        return left
