"""The log of one shard in RocksDB."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from stratamq.engine.rocksdb.reads import RocksReads
from stratamq.engine.rocksdb.rows import RowSnapshots, SegmentRow, ShardRows
from stratamq.log import epochs as epoch_history
from stratamq.log.contract import (
    EpochStart,
    PlacedBatch,
    Rewriter,
    Step,
    below,
    must_roll,
)
from stratamq.log.kv import KVBatch
from stratamq.log.segment_list import by_base
from stratamq.log.sidecar import POINT_EVERY_RECORDS, SPAN_MAX
from stratamq.model.clock import Clock
from stratamq.model.errors import InvalidInput, OffsetOutOfRange, ShardPoisoned
from stratamq.model.topic import TopicConfig
from stratamq.model.types import NO_TIMESTAMP, LeaderEpoch, Offset, ShardName, TimestampMs
from stratamq.wire.kafka.records import (
    EMPTY_SCAN,
    BatchHeader,
    BatchScan,
    read_header,
    scan_batch,
)

REWRITE_BYTES_MAX = 8 << 20
ANY_SIZE = (1 << 31) - 1
"""What was accepted once is scanned again whatever it decompresses to."""


class Staged(NamedTuple):
    """What a shard will be once the rows are written."""

    segments: tuple[SegmentRow, ...]
    epochs: epoch_history.History


class RocksShardStore(RocksReads):
    """See ShardStore. Everything that belongs together is one write, so every crash leaves a whole.

    The small things (segments, epochs, deletion marks) are in memory too, as they are on disk; they
    change after the write that changes the disk.
    """

    __slots__ = ("_clock", "_deleted", "_epochs", "_poison", "snapshots")

    def __init__(self, name: ShardName, rows: ShardRows, config: TopicConfig, clock: Clock) -> None:
        self.name, self.config, self._clock = name, config, clock
        self._rows = self._index = rows
        self._poison: str | None = None
        self._start, self._offloaded = rows.start(), rows.local_start()
        self._segments = self._dated(rows.segments()) or (SegmentRow(self._start, self._start),)
        self._epochs: epoch_history.History = rows.epochs()
        self._deleted = rows.marks()
        self.snapshots = RowSnapshots(rows)

    def _dated(self, segments: tuple[SegmentRow, ...]) -> tuple[SegmentRow, ...]:
        """A row of an earlier version does not say when it was written: now at the latest."""
        now_ms = self._clock.now_ms()
        return tuple(
            one._replace(written_ms=now_ms) if one.written_ms < 0 else one for one in segments
        )

    # -- writing -------------------------------------------------------------------------------

    def append(self, batches: Sequence[PlacedBatch]) -> None:
        rows = self._rows.kv.batch()
        staged = self.stage(rows, batches)
        self._rows.kv.write(rows)
        self.settle(staged)

    def stage(self, rows: KVBatch, batches: Sequence[PlacedBatch]) -> Staged:
        """Rows of the batches and of all that follows from them, for a write that others share."""
        self._check_writable()
        assert batches[0].header.base_offset >= self.end_offset, "offsets never go back"
        *sealed, active = self._segments
        history = self._epochs
        run: list[PlacedBatch] = []
        now_ms = self._clock.now_ms()
        for batch in batches:
            if self._is_full(active, batch):
                self._stage_run(rows, active, run)
                sealed.append(active)
                active, run = SegmentRow(active.end, active.end), []
            active = self._stage_batch(rows, active, batch, now_ms)
            run.append(batch)
            header = batch.header
            history = epoch_history.extended(history, header.leader_epoch, header.base_offset)
        self._stage_run(rows, active, run)
        if history != self._epochs:
            self._rows.replace_epochs(rows, history)
        return Staged((*sealed, active), history)

    def settle(self, staged: Staged) -> None:
        """The rows were written."""
        self._segments, self._epochs = staged

    def poison(self, reason: str) -> ShardPoisoned:
        """Nobody knows what the disk holds: no write until the store is opened again."""
        self._poison = reason
        return ShardPoisoned(f"{self.name} takes no writes until it is recovered: {reason}")

    def _is_full(self, active: SegmentRow, batch: PlacedBatch) -> bool:
        header = batch.header
        size, first, stamp = active.size_bytes, active.first_timestamp, header.max_timestamp
        if must_roll(size, first, header.size_bytes, stamp, self.config):
            return True
        return active.size_bytes > 0 and header.last_offset - active.base > SPAN_MAX

    def _stage_batch(
        self, rows: KVBatch, active: SegmentRow, batch: PlacedBatch, now_ms: TimestampMs
    ) -> SegmentRow:
        self._rows.put_batch(rows, batch)
        grown = active.with_batch(batch, now_ms)
        if grown.unpointed >= POINT_EVERY_RECORDS and grown.max_timestamp >= 0:
            self._rows.put_point(rows, grown)
            grown = grown._replace(unpointed=0)
        return grown

    def _stage_run(self, rows: KVBatch, segment: SegmentRow, run: list[PlacedBatch]) -> None:
        self._rows.put_records(rows, segment.base, run)
        self._rows.put_segment(rows, segment)

    def takes_at_once(
        self, size_bytes: int, max_timestamp: TimestampMs, epoch: LeaderEpoch
    ) -> bool:
        """RocksDB may hold a write back while it compacts."""
        return False

    def sync(self) -> None:
        """Any write that is synced syncs all before it, of all shards."""
        self._check_writable()
        rows = self._rows.kv.batch()
        self._rows.put_segment(rows, self._segments[-1])
        self._rows.kv.write(rows, sync=True)

    def roll(self) -> None:
        self._check_writable()
        if self._segments[-1].size_bytes:
            rows = self._rows.kv.batch()
            segments = self._rolled(rows)
            self._rows.kv.write(rows)
            self._segments = segments

    def _rolled(self, rows: KVBatch) -> tuple[SegmentRow, ...]:
        end = self.end_offset
        new = SegmentRow(end, end)
        self._rows.put_segment(rows, new)
        return (*self._segments, new)

    # -- history -------------------------------------------------------------------------------

    def epochs(self) -> tuple[EpochStart, ...]:
        return self._epochs

    def note_epochs(self, history: Sequence[EpochStart]) -> None:
        self._check_writable()
        known = epoch_history.with_all(self._epochs, history)
        rows = self._rows.kv.batch()
        self._rows.replace_epochs(rows, known)
        self._rows.kv.write(rows, sync=True)
        self._epochs = known

    def deleted(self) -> Set[Offset]:
        return self._deleted

    def delete(self, offsets: Iterable[Offset]) -> None:
        self._check_writable()
        new = list(offsets)
        rows = self._rows.kv.batch()
        self._rows.put_marks(rows, new)
        self._rows.kv.write(rows, sync=True)
        self._deleted.update(new)

    # -- changing the past ---------------------------------------------------------------------

    def truncate(self, end: Offset) -> None:
        self._check_writable()
        end = max(end, self._start)
        if end >= self.end_offset:
            return
        if end < self._offloaded:
            raise OffsetOutOfRange(self.name, end, self._offloaded, self.end_offset)
        cut = self._cut_at(end)
        if cut < self._start:  # the batch that held the start goes: nothing is left
            self.restart(self._start)
            return
        kept = bisect_right(self._segments, end, key=by_base)
        # What lay before the first segment may have been compacted away.
        active = self._shortened(self._segments[kept - 1], cut) if kept else SegmentRow(cut, cut)
        history = epoch_history.cut_end(self._epochs, cut)
        rows = self._rows.kv.batch()
        self._rows.drop_batches_from(rows, end)
        for segment in self._segments[kept:]:
            self._rows.drop_whole_segment(rows, segment)
        self._drop_records(rows, active, cut)
        self._rows.drop_points_from(rows, active.base, cut)
        self._rows.put_segment(rows, active)
        self._rows.drop_marks(rows, cut, None)
        self._rows.replace_epochs(rows, history)
        self._rows.kv.write(rows, sync=True)
        self._segments = (*self._segments[: max(kept - 1, 0)], active)
        self._epochs = history
        self._deleted = {offset for offset in self._deleted if offset < cut}

    def _drop_records(self, rows: KVBatch, segment: SegmentRow, cut: Offset) -> None:
        """Take back the key and tag rows of a segment's batches from `cut` on. Where one cannot be
        read, all rows of the segment are looked at."""
        following = [found.base for found in self._segments if found.base > segment.base]
        for _, data in self._rows.batches(cut, min(following, default=self.end_offset)):
            header = read_header(data)
            scan = self._scan(header, data)
            if scan is EMPTY_SCAN and not header.is_control:
                self._rows.drop_records_from(rows, segment.base, cut)
                return
            batch = PlacedBatch(header, (data,), scan)
            self._rows.replace_records(rows, segment.base, batch, None)

    def _cut_at(self, end: Offset) -> Offset:
        """Where the log ends without `end`: a batch that reaches past it goes as a whole."""
        for _, data in self._rows.batches(end, self.end_offset):
            return min(end, read_header(data).base_offset)
        return end

    def _shortened(self, segment: SegmentRow, cut: Offset) -> SegmentRow:
        """The segment without anything from `cut` on. Reads what goes, which is little as a rule,
        and of what stays only as much as is needed to know its youngest record."""
        gone = sum(len(data) for _, data in self._rows.batches(cut, segment.end))
        if gone >= segment.size_bytes:
            return SegmentRow(segment.base, cut)
        short = segment._replace(end=cut, size_bytes=segment.size_bytes - gone, unpointed=0)
        if segment.max_timestamp_offset < cut:
            return short
        known = self._rows.last_time_before(segment.base, cut)
        stamp, offset = known or (NO_TIMESTAMP, segment.base)
        for last, data in self._rows.batches(offset, cut):
            if (found := read_header(data).max_timestamp) > stamp:
                stamp, offset = found, last
        return short._replace(max_timestamp=stamp, max_timestamp_offset=offset)

    def trim(self, start: Offset) -> None:
        assert start <= self.end_offset, "a trim cannot go past the end"
        self._check_writable()
        if start <= self._start:
            return
        rows = self._rows.kv.batch()
        full = start == self.end_offset and self._segments[-1].size_bytes
        *sealed, active = self._rolled(rows) if full else self._segments
        gone = [segment for segment in sealed if segment.end <= start]
        for segment in gone:
            self._rows.drop_whole_segment(rows, segment)
        if gone:
            self._rows.drop_batches_below(rows, gone[-1].end)
        history = epoch_history.cut_start(self._epochs, start)
        self._rows.put_start(rows, start)
        self._rows.replace_epochs(rows, history)
        self._rows.drop_marks(rows, Offset(0), start)
        self._rows.kv.write(rows, sync=True)
        self._start, self._epochs = start, history
        self._segments = (*sealed[len(gone) :], active)
        self._deleted = {offset for offset in self._deleted if offset >= start}

    def offload(self, end: Offset) -> None:
        """One write. Readers are sent elsewhere before it, and back if it fails."""
        self._check_writable()
        count = below(self._segments, end)
        if not count:
            return
        before, new_start = self._offloaded, self._segments[count].base
        rows = self._rows.kv.batch()
        for segment in self._segments[:count]:
            self._rows.drop_whole_segment(rows, segment)
        self._rows.drop_batches_below(rows, new_start)
        self._rows.put_local_start(rows, new_start)
        self._offloaded = new_start
        try:
            self._rows.kv.write(rows, sync=True)
        except Exception:
            self._offloaded = before
            raise
        self._segments = self._segments[count:]

    def restart(self, start: Offset) -> None:
        self._check_writable()
        active = SegmentRow(start, start)
        rows = self._rows.kv.batch()
        self._rows.drop_everything(rows)
        self._rows.put_start(rows, start)
        self._rows.put_segment(rows, active)
        self._rows.kv.write(rows, sync=True)
        self._start, self._segments, self._epochs = start, (active,), ()
        self._offloaded = Offset(0)
        self._deleted = set()

    def rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset] | None = None
    ) -> None:
        """Changed batches go in writes of bounded size: each leaves a log as good as the one
        before, so a crash between them does no harm. The deletion marks go with the last one."""
        self._check_writable()
        at = next(n for n, found in enumerate(self._segments) if found.base == base_offset)
        old, new = self._segments[at], SegmentRow(base_offset, base_offset)
        rows, pending = self._rows.kv.batch(), 0
        for _, data in self._rows.batches(old.base, old.end):
            header = read_header(data)
            left = rewriter(header, memoryview(data))
            if left != data:
                self._stage_change(rows, old.base, header, data, left)
                pending += len(data)
            if left is not None:
                left_over = PlacedBatch(read_header(left), (left,), EMPTY_SCAN)
                new = new.with_batch(left_over, old.written_ms)
            if pending >= REWRITE_BYTES_MAX:
                self._rows.kv.write(rows)
                rows, pending = self._rows.kv.batch(), 0
        kept = self._stage_rewritten(rows, old, new)
        inside = {mark for mark in self._deleted if old.base <= mark < old.end}
        forgotten = inside if marks is None else inside & marks
        self._rows.put_marks(rows, inside - forgotten)
        self._rows.kv.write(rows, sync=True)
        self._segments = (*self._segments[:at], *kept, *self._segments[at + 1 :])
        self._deleted = self._deleted - forgotten

    def prepare_rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset]
    ) -> Sequence[Step]:
        """All of it is for the writer."""
        return [lambda: self.rewrite(base_offset, rewriter, marks)]

    def _stage_change(
        self, rows: KVBatch, segment: Offset, header: BatchHeader, data: bytes, left: bytes | None
    ) -> None:
        old = PlacedBatch(header, (data,), self._scan(header, data))
        if left is None:
            self._rows.drop_batch(rows, header.last_offset)
            self._rows.replace_records(rows, segment, old, None)
            return
        header = read_header(left)
        new = PlacedBatch(header, (left,), self._scan(header, left))
        self._rows.put_batch(rows, new)
        self._rows.replace_records(rows, segment, old, new)

    def _stage_rewritten(
        self, rows: KVBatch, old: SegmentRow, new: SegmentRow
    ) -> tuple[SegmentRow, ...]:
        self._rows.drop_marks(rows, old.base, old.end)
        if not new.size_bytes:
            self._rows.drop_whole_segment(rows, old)
            return ()
        rewritten = new._replace(end=old.end, unpointed=old.unpointed)
        self._rows.put_segment(rows, rewritten)
        return (rewritten,)

    def _scan(self, header: BatchHeader, data: bytes) -> BatchScan:
        """As it was indexed when it came."""
        keys, tags = self.config.flag("index.key"), self.config.flag("index.tag")
        if header.is_control:
            return EMPTY_SCAN
        try:
            return scan_batch(header, data, keys=keys, tags=tags, decompressed_max=ANY_SIZE)
        except InvalidInput:
            return EMPTY_SCAN

    # -- end -----------------------------------------------------------------------------------

    def close(self) -> None:
        if self._poison is None:
            self.sync()

    def destroy(self) -> None:
        """The storage does it, together with the shard's row: see ShardTable."""
        self._poison = "it was deleted"

    def _check_writable(self) -> None:
        if self._poison is not None:
            raise ShardPoisoned(f"{self.name} takes no writes: {self._poison}")
