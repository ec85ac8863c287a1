"""On which thread a shard is read, and through which view.

Segments on local disk are read by the executor's readers, and memory by the event loop as long as
that is short. Object storage is read on threads of its own, so that a store that hangs holds up
no read or write of local segments. Which of the two it will be is decided before: by the offset,
and look-ups in a shard with history always go the long way. A segment that is offloaded in between
sends its reader there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from stratamq.engine.executor import Executor
from stratamq.engine.limits import EngineLimits
from stratamq.engine.shard import Shard
from stratamq.engine.short_reads import ShortReads, TooLong
from stratamq.engine.tiered import NeedsHistory
from stratamq.engine.view import View, expiry_of
from stratamq.model.clock import Clock
from stratamq.model.damage import report_damage
from stratamq.model.errors import Closed, CorruptRecord, KVDamaged
from stratamq.model.types import Offset

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long closing waits for reads under way. A history that is closed ends its own sooner."""


class Readers:
    """Reads for the engine, whatever the shard and wherever it lies."""

    def __init__(
        self,
        executor: Executor,
        clock: Clock,
        limits: EngineLimits,
        index_is_damaged: Callable[[], None],
    ) -> None:
        self._executor, self._clock = executor, clock
        self._index_is_damaged = index_is_damaged
        self._decompressed_max = limits.decompressed_bytes_max
        self._cold = ColdReaders(limits.cold_reader_threads)

    async def close(self) -> None:
        await self._cold.close()

    # -- views ---------------------------------------------------------------------------------

    def view(self, shard: Shard, *, waits: bool = False) -> View:
        """What a consumer may see now."""
        start, committed, _ = shard.offsets()
        expiry = expiry_of(shard.spec.config, self._clock.now_ms())
        store = shard.reads(waits=waits)
        return View(shard.name, store, start, committed, expiry, self._decompressed_max)

    def everything(self, shard: Shard, *, waits: bool = False) -> View:
        """What deletion sees: records that are not committed yet or have expired as well, since
        both might come into sight later."""
        store = shard.reads(waits=waits)
        start, end = store.start_offset, store.end_offset
        return View(shard.name, store, start, end, None, self._decompressed_max)

    def for_writer(self, shard: Shard) -> View:
        """The same, for the shard's writer: TooLong if that is the event loop and it takes long."""
        view = self.everything(shard)
        if not self._executor.reads_here(shard):
            return view
        return view._replace(store=ShortReads(view.store))

    # -- threads -------------------------------------------------------------------------------

    async def from_offset(self, shard: Shard, offset: Offset, look: Callable[[View], T]) -> T:
        """Look at what lies at `offset` or behind it."""
        view = self.view(shard)
        if not shard.is_cold(offset):
            try:
                return await self._look(shard, look, view)
            except NeedsHistory:
                pass  # it was offloaded meanwhile
        view = view._replace(store=shard.reads(waits=True))  # still as far as it was asked
        return await self.cold(shard, partial(look, view))

    async def anywhere(self, shard: Shard, look: Callable[[View], T]) -> T:
        """Look for something that may be in any part."""
        if shard.is_tiered():
            return await self.cold(shard, partial(look, self.view(shard, waits=True)))
        return await self._look(shard, look, self.view(shard))

    async def find(self, shard: Shard, look: Callable[[View], T]) -> T:
        """Look at everything, on a thread."""
        if shard.is_tiered():
            return await self.cold(shard, partial(look, self.everything(shard, waits=True)))
        return await self.here(shard, partial(look, self.everything(shard)))

    async def _look(self, shard: Shard, look: Callable[[View], T], view: View) -> T:
        """Look at local segments: on the event loop where they are in memory and it takes a moment,
        else on a thread."""
        if self._executor.reads_here(shard):
            try:
                with self.reporting(shard):
                    return look(view._replace(store=ShortReads(view.store)))
            except TooLong:
                pass
        return await self.here(shard, partial(look, view))

    async def here(self, shard: Shard, work: Callable[[], T]) -> T:
        with self.reporting(shard):
            return await self._executor.read(shard, work)

    async def cold(self, shard: Shard, work: Callable[[], T]) -> T:
        with self.reporting(shard):
            return await self._cold.run(work)

    @contextmanager
    def reporting(self, shard: Shard) -> Iterator[None]:
        """Damage fails whatever meets it, reader or writer. It is reported, and a damaged index is
        rebuilt for those that follow."""
        try:
            yield
        except KVDamaged:
            self._index_is_damaged()
            raise
        except CorruptRecord as error:
            report_damage(f"shard {shard.name}: {error}", f"{error.file} {error.position}")
            raise


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
