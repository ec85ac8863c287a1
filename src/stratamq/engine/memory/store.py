"""The log of one shard in memory: the simplest ShardStore, and the model the others are held to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from operator import attrgetter
from pathlib import Path

from stratamq.engine.memory.segment import MemorySegment, offsets_of
from stratamq.log import epochs as epoch_history
from stratamq.log.contract import (
    EpochStart,
    PlacedBatch,
    Rewriter,
    SegmentInfo,
    Step,
    adjoining,
    below,
    must_roll,
)
from stratamq.log.snapshots import MemorySnapshots
from stratamq.model.clock import Clock, SystemClock
from stratamq.model.errors import InvalidInput, OffsetOutOfRange
from stratamq.model.topic import TopicConfig
from stratamq.model.types import EARLIEST, LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import (
    EMPTY_SCAN,
    BatchHeader,
    BatchScan,
    key_hash,
    read_header,
    scan_batch,
    walk,
)

by_base = attrgetter("base")
AT_ONCE_BYTES = 1 << 20
"""What the event loop copies in passing."""

ANY_SIZE = (1 << 31) - 1
"""What was accepted once is scanned again whatever it decompresses to."""


class MemoryShardStore:
    """See ShardStore. Nothing is durable. `weigh` hears of every change of the memory in use.

    The segments are a tuple that is replaced whole, so that readers need no lock.
    """

    __slots__ = (
        "_clock",
        "_deleted",
        "_epochs",
        "_offloaded",
        "_segments",
        "_start",
        "_weigh",
        "config",
        "snapshots",
    )

    def __init__(
        self,
        config: TopicConfig,
        start: Offset = EARLIEST,
        weigh: Callable[[int], None] = lambda change: None,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self._weigh, self._clock = weigh, clock or SystemClock()
        self._start, self._offloaded = start, EARLIEST
        self._segments: tuple[MemorySegment, ...] = (MemorySegment(start),)
        self._epochs: epoch_history.History = ()
        self._deleted: set[Offset] = set()
        self.snapshots = MemorySnapshots()

    @property
    def start_offset(self) -> Offset:
        return self._start

    @property
    def local_start(self) -> Offset:
        return max(self._start, self._offloaded)

    @property
    def end_offset(self) -> Offset:
        return self._segments[-1].end

    @property
    def lasting_end(self) -> Offset:
        """Snapshots last no longer than the log."""
        return self.end_offset

    def active_bytes(self, offset: Offset) -> int | None:
        active = self._segments[-1]
        return active.size_bytes if offset >= active.base else None

    def snapshot(self) -> tuple[MemorySegment, ...]:
        """The segments of this moment; the last may still grow."""
        return self._segments

    @property
    def weight(self) -> int:
        return sum(segment.weight for segment in self._segments)

    # -- writing -------------------------------------------------------------------------------

    def append(self, batches: Sequence[PlacedBatch]) -> None:
        assert batches[0].header.base_offset >= self.end_offset, "offsets never go back"
        now_ms = self._clock.now_ms()
        for batch in batches:
            active = self._segments[-1]
            size, first = active.size_bytes, active.first_timestamp
            if must_roll(
                size, first, batch.header.size_bytes, batch.header.max_timestamp, self.config
            ):
                self.roll()
                active = self._segments[-1]
            epoch = batch.header.leader_epoch
            if epoch >= 0:
                base = batch.header.base_offset
                self._epochs = epoch_history.extended(self._epochs, epoch, base)
            self._weigh(active.append(batch))
            active.written_ms = now_ms

    def takes_at_once(
        self, size_bytes: int, max_timestamp: TimestampMs, epoch: LeaderEpoch
    ) -> bool:
        return True

    def sync(self) -> None:
        pass

    def roll(self) -> None:
        if self._segments[-1].size_bytes:
            self._segments = (*self._segments, MemorySegment(self.end_offset))

    # -- reading -------------------------------------------------------------------------------

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        segments = self._segments
        first = max(bisect_right(segments, offset, key=by_base) - 1, 0)
        for segment in segments[first:]:
            if segment.base >= end:
                break
            if found := segment.read(offset, max_bytes, end):
                return b"".join(found) if len(found) > 1 else found[0]
        return b""

    def read_at_once(
        self, offset: Offset, max_bytes: int, end: Offset
    ) -> tuple[bytes, Offset] | None:
        data = self.read(offset, min(max_bytes, AT_ONCE_BYTES), end)
        return (data, Offset(walk(data)[-1].last_offset + 1)) if data else None

    def offsets_by_key(self, key: bytes, end: Offset) -> Iterator[Offset] | None:
        if not self.config.flag("index.key"):
            return None
        return _newest_first(self._segments, key_hash(key), end)

    def offsets_by_tag(self, tag: bytes, start: Offset, end: Offset) -> Iterator[Offset] | None:
        if not self.config.flag("index.tag"):
            return None
        return _oldest_first(self._segments, key_hash(tag), start, end)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        for segment in self._segments:
            if segment.max_timestamp >= timestamp:
                return max(segment.floor_by_timestamp(timestamp), self._start)
        return self.end_offset

    def segments(self) -> tuple[SegmentInfo, ...]:
        *sealed, active = self._segments
        infos = [segment.info(active=False) for segment in sealed]
        return adjoining([*infos, active.info(active=True)])

    # -- history -------------------------------------------------------------------------------

    def epochs(self) -> tuple[EpochStart, ...]:
        return self._epochs

    def note_epochs(self, history: Sequence[EpochStart]) -> None:
        self._epochs = epoch_history.with_all(self._epochs, history)

    def deleted(self) -> Set[Offset]:
        return self._deleted

    def delete(self, offsets: Iterable[Offset]) -> None:
        self._deleted.update(offsets)

    def begin_epochs(self, before: epoch_history.History) -> None:
        """What is known of the leaders before the first batch here."""
        for epoch, start in self._epochs:
            before = epoch_history.extended(before, epoch, start)
        self._epochs = before

    # -- changing the past ---------------------------------------------------------------------

    def truncate(self, end: Offset) -> None:
        end = max(end, self._start)
        if end >= self.end_offset:
            return
        if end < self._offloaded:
            raise OffsetOutOfRange("a shard in memory", end, self._offloaded, self.end_offset)
        kept = bisect_right(self._segments, end, key=by_base) - 1
        # What lay before the first segment may have been compacted away.
        cut = self._segments[kept].cut(end, self.scan) if kept >= 0 else MemorySegment(end)
        if cut.end < self._start:  # the batch that held the start is gone: nothing is left
            self.restart(self._start)
            return
        kept = max(kept, 0)
        self._replace((*self._segments[:kept], cut))
        self._forget(lambda offset: offset < cut.end)
        self._epochs = epoch_history.cut_end(self._epochs, cut.end)

    def trim(self, start: Offset) -> None:
        assert start <= self.end_offset, "a trim cannot go past the end"
        if start <= self._start:
            return
        if start == self.end_offset:
            self.roll()
        self._start = start
        *sealed, active = self._segments
        self._replace((*(segment for segment in sealed if segment.end > start), active))
        self._epochs = epoch_history.cut_start(self._epochs, start)
        self._forget(lambda offset: offset >= start)

    def offload(self, end: Offset) -> None:
        if count := below(self._segments, end):
            self._offloaded = self._segments[count].base
            self._replace(self._segments[count:])

    def resume(self, start: Offset, end: Offset) -> None:
        """Go on behind what others have. For a store that nothing was written to."""
        assert not self.end_offset, "what is here would be hidden"
        self._start, self._offloaded = start, end
        self._segments = (MemorySegment(end),)

    def files_of(self, base_offset: Offset) -> tuple[Path, ...]:
        return ()

    def restart(self, start: Offset) -> None:
        self._start, self._offloaded = start, min(self._offloaded, start)
        self._replace((MemorySegment(start),))
        self._epochs = ()
        self._deleted = set()

    def rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset] | None = None
    ) -> None:
        forgotten = self._deleted if marks is None else marks
        for step in self.prepare_rewrite(base_offset, rewriter, forgotten):
            step()

    def prepare_rewrite(
        self, base_offset: Offset, rewriter: Rewriter, marks: Set[Offset]
    ) -> Sequence[Step]:
        old = next((found for found in self._segments[:-1] if found.base == base_offset), None)
        if old is None:
            return []
        new = MemorySegment(old.base)
        for header, data in old.items():
            left = rewriter(header, memoryview(data))
            if left is not None:
                header = read_header(left)
                new.append(PlacedBatch(header, (left,), self.scan(header, left)))
        new.end, new.written_ms = old.end, old.written_ms
        return [partial(self._put_in_force, old, new, marks)]

    def _put_in_force(self, old: MemorySegment, new: MemorySegment, marks: Set[Offset]) -> None:
        """Unless the segment has changed since."""
        if old not in self._segments:
            return
        at = self._segments.index(old)
        kept = (new,) if new.batches else ()
        self._replace((*self._segments[:at], *kept, *self._segments[at + 1 :]))
        self._forget(lambda offset: offset not in marks or not old.base <= offset < old.end)

    def scan(self, header: BatchHeader, data: bytes) -> BatchScan:
        """What a stored batch was indexed by when it came."""
        if header.is_control:
            return EMPTY_SCAN
        keys, tags = self.config.flag("index.key"), self.config.flag("index.tag")
        try:
            return scan_batch(header, data, keys=keys, tags=tags, decompressed_max=ANY_SIZE)
        except InvalidInput:
            return EMPTY_SCAN  # it cannot be read, so there is nothing to find in it

    def _replace(self, segments: tuple[MemorySegment, ...]) -> None:
        before = self.weight
        self._segments = segments
        self._weigh(self.weight - before)

    def _forget(self, kept: Callable[[Offset], bool]) -> None:
        """A new set: readers may be looking at the old one."""
        if self._deleted:
            self._deleted = {offset for offset in self._deleted if kept(offset)}

    # -- end -----------------------------------------------------------------------------------

    def close(self) -> None:
        pass

    def destroy(self) -> None:
        self.restart(self._start)


def _newest_first(segments: Sequence[MemorySegment], hashed: int, end: Offset) -> Iterator[Offset]:
    for segment in reversed(segments):
        for offset in reversed(offsets_of(segment.keys, hashed)):
            if offset < end:
                yield Offset(offset)


def _oldest_first(
    segments: Sequence[MemorySegment], hashed: int, start: Offset, end: Offset
) -> Iterator[Offset]:
    for segment in segments:
        offsets = offsets_of(segment.tags, hashed)
        for offset in offsets[bisect_left(offsets, start) :]:
            if offset >= end:
                return
            yield Offset(offset)
