"""On which thread EngineMemory's work is done.

Appending to memory takes less than waking a thread, so the event loop does it, and so it does other
changes of a shard that is in memory alone. Whatever may take long is done by a thread: reads that
turn out to be long, changes of shards that are persisted, everything about shards that are made or
removed, and snapshots of producers. A shard that a thread is changing has a gate meanwhile, where
its other writers wait in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from stratamq.engine.contract import AppendResult
from stratamq.engine.group import (
    Append,
    AppendReplica,
    Commit,
    answer_request,
    commit_all,
    save_producers,
)
from stratamq.engine.memory.capacity import Capacity
from stratamq.engine.memory.persisted import PersistedShardStore
from stratamq.engine.memory.persister import Persister
from stratamq.engine.shard import Shard
from stratamq.model.clock import Clock
from stratamq.model.errors import CapacityExceeded, StrataError

T = TypeVar("T")


class Gate:
    """Exists while a thread changes a shard, and until the last writer that waited for it is
    done."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class MemoryExecutor:
    """See Executor for the contract. `waits`: writers that find memory full wait until the
    persister has moved segments to disk."""

    def __init__(
        self,
        commit: Commit,
        capacity: Capacity,
        clock: Clock,
        *,
        waits: bool,
        background: bool,
    ) -> None:
        self._commit, self._capacity, self._clock = commit, capacity, clock
        self._waits = waits
        self._persister = Persister(background=background)
        self._persisted: dict[Shard, None] = {}
        self._gates: dict[Shard, Gate] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        pass

    def lane_of(self, name: str) -> int:
        return 0

    # -- appending -----------------------------------------------------------------------------

    async def append(self, request: Append | AppendReplica) -> AppendResult:
        shard = request.shard
        if isinstance(shard.store, PersistedShardStore):
            self._persisted[shard] = None
        if shard not in self._gates:
            try:
                return self._append(request)
            except CapacityExceeded:
                if not self._persisted:
                    raise
        async with self._in_turn(shard):
            return await self._append_with_patience(request)

    def _append(self, request: Append | AppendReplica) -> AppendResult:
        shard = request.shard
        with shard.lock:
            groups, _ = commit_all((request,), self._clock.now_ms(), self._commit)
        groups[0].publish()
        answer = request.answer
        if not isinstance(answer, AppendResult):
            assert isinstance(answer, BaseException), "a commit answers every request"
            raise answer
        if shard.producers.is_due():
            self._start(self._in_thread(shard, partial(save_producers, [shard])))
        self._persister.poke(shard)
        return answer

    async def _append_with_patience(self, request: Append | AppendReplica) -> AppendResult:
        """Memory that is full of segments on their way to disk is free again when they are there,
        unless the disk does not take them."""
        while True:
            try:
                return self._append(request)
            except CapacityExceeded:
                used_bytes = self._capacity.used_bytes
                self.poke_all()
                if self._waits:
                    await self._persister.wait()
                if self._capacity.used_bytes >= used_bytes:
                    raise

    def begin(self, request: Append) -> None:
        """At once, unless others are before it or memory is full for a while."""
        shard = request.shard
        if isinstance(shard.store, PersistedShardStore):
            self._persisted[shard] = None
        if shard not in self._gates:
            with suppress(StrataError):
                self._append(request)
            if not isinstance(request.answer, CapacityExceeded) or not self._persisted:
                answer_request(request)
                return
        self._start(self._begin_in_turn(request, self._enter(shard)))

    async def _begin_in_turn(self, request: Append, gate: Gate) -> None:
        with suppress(StrataError):
            async with self._in_turn(request.shard, gate):
                await self._append_with_patience(request)
        answer_request(request)

    # -- everything else -----------------------------------------------------------------------

    async def run(self, shard: Shard, work: Callable[[], T]) -> T:
        if isinstance(shard.store, PersistedShardStore):
            done = await self._to_the_end(self._in_thread(shard, work))
            self._persister.poke(shard)
            return done
        if shard not in self._gates:
            with shard.lock:
                return work()
        async with self._in_turn(shard):
            with shard.lock:
                return work()

    async def _in_thread(self, shard: Shard, work: Callable[[], T]) -> T:
        """Do something as the shard's writer that may take long."""

        def locked() -> T:
            with shard.lock:
                return work()

        async with self._in_turn(shard):
            store = shard.store
            if not isinstance(store, PersistedShardStore):
                return await asyncio.to_thread(locked)
            async with self._persister.lock:
                self._capacity.busy.add(store.memory)
                try:
                    return await asyncio.to_thread(locked)
                finally:
                    self._capacity.busy.discard(store.memory)

    def _enter(self, shard: Shard) -> Gate:
        gate = self._gates.setdefault(shard, Gate())
        gate.users += 1
        return gate

    @asynccontextmanager
    async def _in_turn(self, shard: Shard, entered: Gate | None = None) -> AsyncIterator[None]:
        gate = entered or self._enter(shard)
        try:
            async with gate.lock:
                yield
        finally:
            gate.users -= 1
            if not gate.users:
                del self._gates[shard]

    def reads_here(self, shard: Shard) -> bool:
        """The old part of a persisted shard is on disk."""
        return not isinstance(shard.store, PersistedShardStore)

    async def read(self, shard: Shard, work: Callable[[], T]) -> T:
        return await self.call(work)

    async def call(self, work: Callable[[], T]) -> T:
        return await self._to_the_end(asyncio.to_thread(work))

    # -- tasks ---------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """A caller may give up; the thread does not."""
        task = self._start(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def persist(self) -> None:
        """Move to disk whatever is sealed and to be persisted."""
        self.poke_all()
        await self._persister.wait()

    def poke_all(self) -> None:
        for shard in self._persisted:
            self._persister.poke(shard)

    async def drain(self) -> None:
        """A clean stop loses nothing."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.persist_all()

    async def persist_all(self) -> None:
        """Seal what is in memory and to be persisted, and move it to disk. A shard that fails does
        not keep the others from it."""
        there = [shard for shard in self._persisted if not shard.gone]
        failures: list[Exception] = []
        for shard in there:
            try:
                async with self._persister.lock:
                    shard.store.roll()
            except StrataError as error:
                failures.append(error)
            self._persister.poke(shard)
        await self._persister.wait()
        stores = [one.store for one in there if isinstance(one.store, PersistedShardStore)]
        for store in stores:
            try:
                await self.call(store.settle)
            except StrataError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def close(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
