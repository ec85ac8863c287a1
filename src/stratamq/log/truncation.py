"""Cutting a segment: where it will end, what is known of it then, and doing it.

Planning only reads; `Cut.carry_out` changes the disk. Between the two the caller shows readers the
shorter segment, so that no reader follows the file over its new end. Both look at what is cut off,
at a stretch between two index points, and at nothing else that is kept. Only a sealed segment has
all its points checked, since it becomes active again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stratamq.log import reader
from stratamq.log.active_segment import ActiveSegment
from stratamq.log.contract import PlacedBatch
from stratamq.log.disk import temporary
from stratamq.log.index import IndexState
from stratamq.log.kv import KVBatch
from stratamq.log.scan import Damage, Intact
from stratamq.log.sealed_segment import SealedSegment
from stratamq.log.segment import Segment
from stratamq.log.sidecar import OffsetPoint, TimePoint
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import CorruptRecord
from stratamq.model.types import NO_TIMESTAMP, Offset, Position, TimestampMs
from stratamq.wire.kafka.records import EMPTY_SCAN, HEADER_BYTES, BatchScan, read_header

ROWS_PER_WRITE = 1 << 15
COPIED_BYTES = 1 << 20

ScanBatch = Callable[[Intact], BatchScan]
"""Keys and tags of a stored batch, as they were indexed."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The active segment that the target will be, and the index points it keeps if it is sealed.
    Without `scan`, the index may speak of batches that the file does not have."""

    target: Segment
    active: ActiveSegment
    offsets: list[OffsetPoint]
    times: list[TimePoint]
    scan: ScanBatch | None
    in_gap: bool
    """Whether offsets that compaction has removed lie between the last batch and the end."""

    def carry_out(self) -> None:
        """Shorten the index, then the file, both durably.

        How far the index reaches is noted first. After a crash, recovery then indexes again what is
        still in the log, or was written since.
        """
        active, index = self.active, self.active.index
        state, target = active.state, self.target
        if isinstance(target, ActiveSegment) and target.state.synced_position < active.size:
            # What is kept is synced below, with the cut; until then recovery must not trust it.
            state.synced_end = target.state.synced_end
            state.synced_position = target.state.synced_position
        rows = index.kv.batch()
        index.put_state(rows, state)
        index.drop_points_from(rows, active.base, active.end)
        for point in self.offsets:
            index.put_offset_point(rows, active.base, point)
        for time in self.times:
            index.put_time_point(rows, active.base, time)
        index.kv.write(rows, sync=True)
        for stale in self._stale_rows():
            index.kv.write(stale)
        self._cut_file()
        state.synced_end, state.synced_position = active.end, Position(active.size)
        if isinstance(self.target, SealedSegment):
            self.target.unlink_sidecars()  # an active segment has its points in the store

    def _cut_file(self) -> None:
        """A sealed file that a backup has linked stays whole there: a copy of what is kept takes
        its name here."""
        active, disk = self.active, self.active.disk
        file = active.file()
        if not file.is_linked():
            file.truncate(active.size)
            file.sync()
            return
        copy = disk.open(temporary(active.path), create=True)
        copy.truncate(0)
        for position in range(0, active.size, COPIED_BYTES):
            size = min(COPIED_BYTES, active.size - position)
            copy.write([file.read(size, position)], position)
        copy.sync()
        disk.rename(temporary(active.path), active.path)
        disk.sync_folder(active.folder)

    def _stale_rows(self) -> Iterator[KVBatch]:
        """Changes that take back the key and tag rows of what goes, in writes of bounded size.
        Where a batch cannot be read, all rows of the segment are looked at."""
        active, index = self.active, self.active.index
        rows = index.kv.batch()
        for found in self.target.scan(active.size) if self.scan else ():
            batch = self._indexed(found)
            if batch is None:
                index.drop_records_from(rows, active.base, active.end)
                break
            index.replace_records(rows, active.base, batch, None)
            if len(rows) >= ROWS_PER_WRITE:
                yield rows
                rows = index.kv.batch()
        if self.scan is None:
            index.drop_records_from(rows, active.base, active.end)
        yield rows

    def _indexed(self, found: Intact | Damage) -> PlacedBatch | None:
        """A batch with what was indexed of it; None where that cannot be known."""
        if isinstance(found, Damage) or self.scan is None:
            return None
        scan = self.scan(found)
        if scan is EMPTY_SCAN and not found.header.is_control:
            return None
        return PlacedBatch(found.header, (found.data,), scan)


def plan_cut(target: Segment, end: Offset, scan: ScanBatch | None = None) -> Cut:
    """The target as an active segment without anything from `end` on."""
    position, cut_end, in_gap = _cut_at(target, end)
    offsets: list[OffsetPoint] = []
    times: list[TimePoint] = []
    if isinstance(target, SealedSegment):
        offsets, times = target.points()
        offsets = [point for point in offsets if point.last_offset < cut_end]
        times = [point for point in times if point.offset < cut_end]
        youngest = times[-1] if times else None
        # A time index may be cut off, and retention goes by the youngest record.
        begin = target.floor(youngest.offset) if youngest else None
    else:
        begin = target.floor(Offset(cut_end - 1))
        youngest = target.index.last_time_before(target.base, cut_end)
    state = _tail_state(target, begin, youngest, position, cut_end)
    active = ActiveSegment.at(target.disk, target.folder, target.index, state, position)
    active.whole = target.whole
    return Cut(target, active, offsets, times, scan, in_gap)


def _cut_at(target: Segment, end: Offset) -> tuple[Position, Offset, bool]:
    """Position and offset at which a file that must not hold `end` has to stop, and whether there
    may be a gap before it."""
    try:
        position = reader.locate(target.view(target.size), end)
    except CorruptRecord as damage:
        return Position(damage.position), end, False
    if position is None:
        return Position(target.size), end, end < target.end or isinstance(target, SealedSegment)
    header = read_header(target.file().read(HEADER_BYTES, position))
    return position, Offset(min(end, header.base_offset)), header.base_offset > end


def _tail_state(
    segment: Segment,
    begin: OffsetPoint | None,
    youngest: TimePoint | None,
    position: Position,
    end: Offset,
) -> IndexState:
    """What `ActiveSegment` would know had it just indexed everything below `position`. `youngest`
    is the youngest batch before `begin`."""
    youngest = youngest or TimePoint(NO_TIMESTAMP, segment.base)
    last = segment.floor(Offset(end - 1))
    pointed, since = last.position if last else 0, 0
    for batch in segment.batches(begin.position if begin else 0):
        if batch.position >= position:
            break
        if batch.position >= pointed:
            since += batch.header.record_count
        if batch.header.max_timestamp > youngest.timestamp:
            youngest = TimePoint(
                TimestampMs(batch.header.max_timestamp), Offset(batch.header.last_offset)
            )
    state = IndexState(segment.base, end, position, end, position)
    state.records_since_point = since
    state.first_timestamp = segment.info().first_timestamp if position else NO_TIMESTAMP
    state.max_timestamp, state.max_timestamp_offset = youngest
    return state
