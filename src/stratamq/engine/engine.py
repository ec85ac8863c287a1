"""The engine: everything that brokers and readers are promised, written once over any ShardStorage.

EngineMemory, EngineRocksDB and EngineSegment are this class with another storage below it, so they
cannot disagree about what a reader sees. A call is checked on the event loop, where bad input ends;
what is left is done by the shard's writer or by a reader (`stratamq.engine.executor`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from stratamq.engine import engine_shard, housekeeping, lookups, reads, tiering
from stratamq.engine.backup import ShardCopier
from stratamq.engine.commit import answer
from stratamq.engine.contract import (
    AcceptedBatch,
    Acks,
    AppendResult,
    ExportedSegment,
    FetchResult,
    OffsetStrategy,
    ReadLimit,
    ShardHousekeeping,
    ShardManagement,
    ShardReading,
    ShardReplication,
    ShardSpec,
    ShardTiering,
    ShardWriting,
    Unsubscribe,
)
from stratamq.engine.engine_shard import EngineShard, committed
from stratamq.engine.executor import Executor
from stratamq.engine.group import Append
from stratamq.engine.handle import Local, Remote
from stratamq.engine.limits import EngineLimits
from stratamq.engine.producers.shard import ProducerLimit
from stratamq.engine.reading import Readers
from stratamq.engine.registry import Registry
from stratamq.engine.shard import Shard
from stratamq.engine.short_reads import TooLong
from stratamq.engine.storage import ShardStorage
from stratamq.engine.tiered import History, NeedsHistory
from stratamq.engine.view import View
from stratamq.log import epochs as epoch_history
from stratamq.log.contract import EpochStart, SegmentInfo
from stratamq.log.shard_copy import OnBytes
from stratamq.model.clock import Clock
from stratamq.model.counters import Durations
from stratamq.model.errors import OffsetOutOfRange, ShardPoisoned, StrataError
from stratamq.model.record import Record
from stratamq.model.settings.topic import Flush
from stratamq.model.shard import ShardOffsets
from stratamq.model.transaction import AbortedTxn, ProducerStateEntry, TransactionMarker
from stratamq.model.types import (
    EARLIEST,
    NO_EPOCH,
    NO_OFFSET,
    LeaderEpoch,
    Offset,
    ShardName,
    TimestampMs,
)
from stratamq.wire.kafka.records import Buffer, ControlType, Scratch, encode_control

T = TypeVar("T")
logger = logging.getLogger(__name__)


class StorageEngine(
    ShardManagement,
    ShardWriting,
    ShardReading,
    ShardReplication,
    ShardHousekeeping,
    ShardTiering,
):
    """See the contracts for what each method promises. `executor`, `clock` and `limits` are for the
    handles of its shards."""

    def __init__(
        self, storage: ShardStorage, executor: Executor, clock: Clock, limits: EngineLimits
    ) -> None:
        self.executor, self.clock, self.limits = executor, clock, limits
        self._storage = storage
        producers = ProducerLimit(limits.producers_max, limits.aborted_transactions_max)
        self._registry = Registry(storage, executor, limits.checkpoint_ms, producers)
        self.traffic = self._registry.traffic
        """What was appended and fetched, by topic."""
        self.syncs: Durations | None = None
        """Of commits that promise a sync, where the engine syncs files of its own."""
        self._shard = self._registry.get
        self._readers = Readers(executor, clock, limits, self._registry.index_is_damaged)
        self._scratch = Scratch()  # batches are looked at on the event loop, one at a time
        self._tasks: set[asyncio.Task[Any]] = set()
        self._backups = 0
        self._no_backup = asyncio.Event()
        self._no_backup.set()

    # -- life ----------------------------------------------------------------------------------

    async def open(self) -> None:
        await self._registry.open()

    async def close(self) -> None:
        await self._readers.close()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._registry.close()

    # -- shards --------------------------------------------------------------------------------

    async def create_shard(self, spec: ShardSpec) -> None:
        await self._registry.create(spec)

    async def delete_shard(self, name: ShardName) -> None:
        await self._registry.delete(name)

    def list_shards(self) -> Mapping[ShardName, ShardSpec]:
        return self._registry.specs()

    async def restore_shards(self, specs: Sequence[ShardSpec]) -> None:
        await self._registry.restore(specs)

    def is_unopened(self, name: ShardName) -> bool:
        return self._registry.is_unopened(name)

    async def open_shard(self, name: ShardName) -> None:
        await self._registry.open_shard(name)

    def opened_shards(self) -> Mapping[ShardName, Shard]:
        return self._registry.opened

    def unopened_shards(self) -> Collection[ShardName]:
        """Those that are opened when they are used, or later."""
        return self._registry.unopened

    def unavailable_shards(self) -> Mapping[ShardName, str]:
        return self._registry.unavailable()

    async def check_files(self) -> None:
        await self._registry.check_files()

    async def retry_shard(self, spec: ShardSpec, *, repair: bool = False) -> bool:
        return await self._registry.retry(spec, repair=repair)

    def offsets(self, shard: ShardName) -> ShardOffsets:
        return self._shard(shard).offsets()

    def segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        return self._shard(shard).store.segments()

    async def load_segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        target = self._shard(shard)
        return await self.executor.read(target, target.store.segments)

    def subscribe(self, shard: ShardName, callback: Callable[[], None]) -> Unsubscribe:
        return self._shard(shard).watch(callback)

    async def recover_shard(self, shard: ShardName) -> None:
        await self._to_the_end(self._registry.recover(shard))

    def handle(self, name: ShardName, leader: Local | Remote = Local()) -> EngineShard:
        return EngineShard(self, self._shard(name), leader)

    # -- writing -------------------------------------------------------------------------------

    async def write(self, shard: ShardName, record: Record) -> Offset:
        request = self._encode(self._writable(shard), (record,))
        return (await self.executor.append(request)).base_offset

    async def batch_write(
        self, shard: ShardName, records: Sequence[Record], acks: Acks | None = Acks.LEADER
    ) -> range:
        target = self._writable(shard)
        if not records:
            end = target.store.end_offset
            return range(end, end)
        result = await self.executor.append(self._encode(target, records))
        await committed(target, Offset(result.last_offset + 1), acks)
        return range(result.base_offset, result.last_offset + 1)

    async def append_batch(
        self,
        shard: ShardName,
        data: Buffer | AcceptedBatch,
        leader_epoch: LeaderEpoch | None = None,
    ) -> AppendResult:
        limit = self.limits.decompressed_bytes_max
        target, now_ms = self._writable(shard), self.clock.now_ms()
        request = engine_shard.from_batch(target, data, leader_epoch, limit, self._scratch, now_ms)
        return await self.executor.append(request)

    async def append_replica(self, shard: ShardName, data: bytes) -> Offset:
        target = self._writable(shard)
        if not data:
            return target.store.end_offset
        request = engine_shard.from_leader(target, data, self.limits.decompressed_bytes_max)
        first = request.batches[0].header.base_offset
        if target.is_empty():
            await self._registry.watermarks.lower(target, first)
        return Offset((await self.executor.append(request)).last_offset + 1)

    async def write_marker(
        self,
        shard: ShardName,
        marker: TransactionMarker,
        leader_epoch: LeaderEpoch | None = None,
    ) -> Offset:
        data = encode_control(
            ControlType.COMMIT if marker.commit else ControlType.ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            now_ms=self.clock.now_ms(),
        )
        request = engine_shard.from_marker(self._writable(shard), data, leader_epoch)
        return (await self.executor.append(request)).base_offset

    def _encode(self, shard: Shard, records: Sequence[Record]) -> Append:
        now_ms = self.clock.now_ms()
        return engine_shard.from_records(shard, records, now_ms, self.limits.decompressed_bytes_max)

    def _writable(self, name: ShardName) -> Shard:
        shard = self._shard(name)
        shard.check_writable()
        if shard.flush is Flush.INTERVAL and shard.flush_timer is None:
            self.flush_later(shard)
        return shard

    # -- producers -----------------------------------------------------------------------------

    def last_stable_offset(self, shard: ShardName) -> Offset:
        return self._shard(shard).last_stable()

    def aborted_transactions(
        self, shard: ShardName, start: Offset, end: Offset
    ) -> list[AbortedTxn]:
        return self._shard(shard).producers.table.transactions.aborted.between(start, end)

    def producers(self, shard: ShardName) -> list[ProducerStateEntry]:
        return self._shard(shard).producers.table.states()

    # -- flush=interval ------------------------------------------------------------------------

    def flush_later(self, shard: Shard) -> None:
        """Set when a write comes in: the sync is queued behind it, however long it has to wait."""
        delay_s = shard.spec.config.number("flush.ms") / 1000
        shard.flush_timer = asyncio.get_running_loop().call_later(delay_s, self._flush, shard)

    def _flush(self, shard: Shard) -> None:
        shard.flush_timer = None
        self._start(self._sync(shard))

    async def _sync(self, shard: Shard) -> None:
        try:
            await self._change(shard, lambda: shard.store.sync())
        except StrataError as error:
            logger.error("%s was not synced: %s", shard.name, error)

    # -- reading -------------------------------------------------------------------------------

    async def read_by_offset(
        self, shard: ShardName, offset: Offset, limit: ReadLimit = ReadLimit()
    ) -> list[Record]:
        target = self._shard(shard)
        return await self._readers.from_offset(
            target, offset, lambda view: reads.by_offset(view, offset, limit)
        )

    async def read_by_key(
        self,
        shard: ShardName,
        key: bytes,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
        *,
        history: bool = False,
    ) -> list[Record]:
        return await self._readers.anywhere(
            self._shard(shard), lambda view: lookups.by_key(view, key, offset, limit, history)
        )

    async def read_by_tag(
        self,
        shard: ShardName,
        tag: bytes,
        offset: Offset = EARLIEST,
        limit: ReadLimit = ReadLimit(),
    ) -> list[Record]:
        return await self._readers.anywhere(
            self._shard(shard), lambda view: lookups.by_tag(view, tag, offset, limit)
        )

    async def offset_by_timestamp(
        self,
        shard: ShardName,
        timestamp: TimestampMs,
        strategy: OffsetStrategy = OffsetStrategy.LATEST,
    ) -> Offset:
        return await self._readers.anywhere(
            self._shard(shard), lambda view: reads.by_timestamp(view, timestamp, strategy)
        )

    async def youngest_record(self, shard: ShardName, end: Offset | None = None) -> Record | None:
        target = self._shard(shard)

        def look(view: View) -> Record | None:
            segments = [*target.cold_segments(), *view.store.segments()]
            largest = max([segment.max_timestamp for segment in segments])
            return reads.youngest(view.until(end), largest)

        return await self._readers.anywhere(target, look)

    async def fetch_batches(
        self,
        shard: ShardName,
        offset: Offset,
        bytes_max: int = 1 << 20,
        end: Offset | None = None,
    ) -> FetchResult:
        target = self._shard(shard)
        offsets = target.offsets()
        found = reads.fetch_at_once(self._readers.view(target).until(end), offset, bytes_max)
        if found is None:
            found = await self._readers.from_offset(
                target, offset, lambda view: reads.fetch(view.until(end), offset, bytes_max)
            )
        return FetchResult(*found, offsets)

    async def read_raw(self, shard: ShardName, offset: Offset, bytes_max: int = 1 << 20) -> bytes:
        target = self._shard(shard)
        start, end = target.store.start_offset, target.store.end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(shard, offset, start, end)
        return await self._readers.from_offset(
            target, offset, lambda view: view.store.read(offset, bytes_max, end)
        )

    # -- deleting ------------------------------------------------------------------------------

    async def delete_by_key(self, shard: ShardName, key: bytes) -> int:
        find = housekeeping.of_key(key, self.limits.deletion_marks_max)
        return await self._delete(self._shard(shard), find)

    async def delete_by_offset(self, shard: ShardName, offset: Offset) -> bool:
        return bool(await self._delete(self._shard(shard), housekeeping.at_offset(offset)))

    async def _delete(self, shard: Shard, find: housekeeping.Find) -> int:
        """As the writer, so that nothing comes between finding and marking. What object storage
        has, and what takes long, is found by a reader: the writer must not wait for it."""
        readers, marks_max = self._readers, self.limits.deletion_marks_max

        def as_writer() -> int:
            return housekeeping.delete(shard, find(readers.for_writer(shard)), marks_max)

        try:
            return await self._change(shard, as_writer)
        except (NeedsHistory, TooLong):
            pass
        while True:
            generation = shard.generation
            found = await readers.find(shard, find)
            if shard.generation == generation:  # else other records may be at those offsets now
                mark = partial(housekeeping.delete, shard, found, marks_max)
                return await self._change(shard, mark)

    # -- replication ---------------------------------------------------------------------------

    async def truncate(self, shard: ShardName, end: Offset) -> None:
        target = self._shard(shard)
        start, committed, log_end = target.offsets()
        kept = max(start, min(target.settled_end(), log_end))
        if end < kept:
            raise OffsetOutOfRange(shard, end, kept, log_end)
        target.commits.hide(end)  # no reader gets what is going
        await self._to_the_end(self._truncate(target, end, committed))

    async def _truncate(self, shard: Shard, end: Offset, committed: Offset) -> None:
        """The high watermark is saved before anything is cut. It comes back only if the log was not
        touched: what is written there next is not committed."""
        generation = shard.generation
        try:
            await self._registry.watermarks.save(shard)
            await self._change(shard, lambda: housekeeping.truncate(shard, end))
        except BaseException:
            if shard.generation == generation:
                shard.commits.advance(committed)
            raise
        await self._registry.watermarks.lower(shard, shard.store.end_offset)
        answer(shard.commits.truncated(shard.store.end_offset))
        shard.moved()

    def epochs(self, shard: ShardName) -> tuple[EpochStart, ...]:
        return self._shard(shard).store.epochs()

    def end_of_epoch(self, shard: ShardName, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        store = self._shard(shard).store
        found = epoch_history.end_of_epoch(store.epochs(), epoch, store.end_offset)
        return found or (NO_EPOCH, NO_OFFSET)

    async def advance_high_watermark(self, shard: ShardName, offset: Offset) -> None:
        target = self._shard(shard)
        if target.replicated and target.commits.advance(offset):
            self._registry.watermarks.moved(target)
            target.moved()

    # -- housekeeping --------------------------------------------------------------------------

    async def trim(self, shard: ShardName, start: Offset) -> Offset:
        target = self._shard(shard)
        old, committed, _ = target.offsets()
        if start > committed:
            raise OffsetOutOfRange(shard, start, old, committed)
        if start > old:
            await self._shorten(target, lambda: housekeeping.trim(target, start))
        return target.store.start_offset

    async def _shorten(self, shard: Shard, work: Callable[[], T]) -> T:
        """Do something that may move the start, and wake those who wait for that."""

        async def shorten() -> T:
            before = shard.store.start_offset
            done = await self._change(shard, work)
            if shard.store.start_offset > before:
                shard.moved()
            return done

        return await self._to_the_end(shorten())

    async def roll(self, shard: ShardName) -> None:
        target = self._shard(shard)
        await self._change(target, lambda: target.store.roll())

    async def apply_retention(self, shard: ShardName) -> int:
        target = self._shard(shard)
        committed, now_ms = target.committed(), self.clock.now_ms()
        silent_ms_max = self.limits.producer_expiration_ms
        return await self._shorten(
            target, lambda: housekeeping.retain(target, committed, now_ms, silent_ms_max)
        )

    async def compact(self, shard: ShardName) -> int:
        target = self._shard(shard)
        if self._backups:
            return 0
        deleted = await self._change(target, partial(housekeeping.to_be_taken_out, target))
        if self._backups:
            return 0  # the view would end above the backup, and its successors are not in there
        # Nothing is awaited from that check until the view is taken.
        here = self._readers.view(target)._replace(store=target.store)
        view = here._replace(end=target.last_stable())
        generation = target.generation
        if not (deleted or view.expiry or target.compacts):
            return 0
        now_ms, keys_max = self.clock.now_ms(), self.limits.compaction_keys_max
        config = target.spec.config
        aborted = target.producers.table.transactions.aborted
        scope = housekeeping.Scope(view, deleted, aborted, target.settled_end())
        plans = await self._readers.here(
            target, lambda: housekeeping.plan(scope, config, now_ms, keys_max)
        )
        freed = 0
        for plan in plans:
            rewrite = housekeeping.Rewrite(target, plan, generation, view.decompressed_max)
            freed += await self._to_the_end(self._rewrite(target, rewrite))
        return freed

    async def _rewrite(self, shard: Shard, rewrite: housekeeping.Rewrite) -> int:
        """One segment. Its new files take space until they are put in force."""
        if await self._change(shard, rewrite.begin):
            await self._readers.here(shard, rewrite.prepare)
        return sum([await self._change(shard, step) for step in rewrite.steps])

    # -- object storage ------------------------------------------------------------------------

    def attach_history(self, shard: ShardName, history: History | None) -> None:
        target = self._shard(shard)
        target.history = history
        if history is not None:
            target.shown = max(target.shown, history.shown_end)

    def local_start(self, shard: ShardName) -> Offset:
        return self._shard(shard).store.local_start

    def tiered_end(self, shard: ShardName) -> Offset:
        return self._shard(shard).tiered_end()

    def cold_segments(self, shard: ShardName) -> tuple[SegmentInfo, ...]:
        return self._shard(shard).cold_segments()

    async def deleted(self, shard: ShardName, start: Offset, end: Offset) -> list[Offset]:
        target = self._shard(shard)
        inside = range(start, end)
        return await self._change(
            target, lambda: sorted(mark for mark in target.store.deleted() if mark in inside)
        )

    async def note_shown(self, shard: ShardName, end: Offset) -> None:
        target = self._shard(shard)
        await self._change(target, partial(tiering.note_shown, target, end))

    async def export_segment(
        self, shard: ShardName, base_offset: Offset, folder: Path
    ) -> ExportedSegment:
        target = self._shard(shard)
        stable = target.last_stable()
        segment = await self._change(target, partial(tiering.hand_out, target, base_offset, stable))
        return await self._readers.here(
            target, lambda: tiering.export(target.store, segment, folder)
        )

    async def offload(self, shard: ShardName, end: Offset) -> int:
        await self._no_backup.wait()
        target = self._shard(shard)
        bound = min(end, target.last_stable())
        return await self._change(target, lambda: tiering.offload(target, bound))

    # -- backup: see `stratamq.engine.backup` --------------------------------------------------

    @contextmanager
    def held_for_backup(self) -> Iterator[None]:
        """Meanwhile no compaction begins: `compact` returns 0, and the next round of housekeeping
        does it. Offloading a segment waits."""
        self._backups += 1
        self._no_backup.clear()
        try:
            yield
        finally:
            self._backups -= 1
            if not self._backups:
                self._no_backup.set()

    async def open_all(self) -> None:
        for name in list(self._registry.unopened):
            await self.open_shard(name)

    async def copy_index(self, target: Path) -> None:
        """Copy the index before the ends are taken: it may be short of the logs, and must not be
        ahead of them. So whatever it knows of is known to the event loop on return: each writer
        does a task after its commits, and is answered after them."""
        await asyncio.to_thread(self._storage.copy_index, target)
        writers = {shard.lane: shard for shard in self._registry.opened.values()}
        await asyncio.gather(*(self.executor.run(one, lambda: None) for one in writers.values()))

    def committed_ends(self) -> dict[ShardName, Offset]:
        """Where each open shard ends for its readers: everything that was acknowledged is below."""
        return {name: shard.committed() for name, shard in self._registry.opened.items()}

    async def back_up(
        self, target: Path, ends: Mapping[ShardName, Offset], on_bytes: OnBytes
    ) -> set[ShardName]:
        """Copy these shards, each up to its end, into a folder that becomes a data folder. Those
        that were deleted meanwhile are returned."""
        copier = ShardCopier(self._storage, self.executor, target, on_bytes)
        for name, end in ends.items():
            if (shard := self._registry.opened.get(name)) is not None:
                with self._readers.reporting(shard):
                    await copier.copy(shard, end)
        await copier.copy_rest(ends)
        return ends.keys() - self._registry.opened.keys() - self._registry.unavailable().keys()

    # -- tasks ---------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Do all of it, also if the caller gives up: its writer would go on alone, and nothing of
        what follows from its work would be done."""
        task = self._start(work)
        task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def _change(self, shard: Shard, work: Callable[[], T]) -> T:
        """Do something as the shard's writer, unless the shard is gone or poisoned by then."""

        def checked() -> T:
            shard.check_writable()
            return work()

        try:
            with self._readers.reporting(shard):
                return await self.executor.run(shard, checked)
        except ShardPoisoned as error:
            shard.poison = str(error)
            raise


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Where the caller gave up, no other code asks for the error, and asyncio would complain."""
    if not task.cancelled():
        task.exception()
