"""Cutting a segment: where it will end, what is known of it then, and doing it.

Planning only reads; `Cut.carry_out` changes the disk. Between the two the caller shows readers the
shorter segment, so that nobody follows the file over its new end.
"""

from __future__ import annotations

from stratamq.log import names, reader
from stratamq.log.index import IndexState
from stratamq.log.kv import KVBatch
from stratamq.log.segment import ActiveSegment, SealedSegment, Segment
from stratamq.log.sidecar import OffsetPoint, TimePoint
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import CorruptRecord
from stratamq.model.types import NO_TIMESTAMP, Offset, Position, TimestampMs
from stratamq.wire.kafka.records import HEADER_BYTES, read_header


@dataclass(frozen=True, slots=True)
class Cut:
    """The active segment that will be, and the index points it keeps."""

    active: ActiveSegment
    offsets: list[OffsetPoint]
    times: list[TimePoint]
    was_sealed: bool

    def carry_out(self, rows: KVBatch) -> None:
        """Shorten the file, durably, and collect the index rows that follow from it."""
        active = self.active
        file = active.file()
        file.truncate(active.size)
        file.sync()
        active.index.drop_from(rows, active.base, active.end)
        if self.was_sealed:
            self._return_points(rows)
        active.index.put_state(rows, active.state)

    def _return_points(self, rows: KVBatch) -> None:
        """An active segment has its points in the store."""
        active = self.active
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
            active.disk.unlink(active.folder / names.segment_file(active.base, suffix))
        for point in self.offsets:
            active.index.put_offset_point(rows, active.base, point)
        for time in self.times:
            active.index.put_time_point(rows, active.base, time)


def plan_cut(target: Segment, end: Offset) -> Cut:
    """The target as an active segment without anything from `end` on."""
    position, cut_end = _cut_at(target, end)
    offsets, times = target.points()
    offsets = [point for point in offsets if point.last_offset < cut_end]
    times = [point for point in times if point.offset < cut_end]
    state = tail_state(target, offsets, times, position, cut_end)
    active = ActiveSegment.at(target.disk, target.folder, target.index, state, position)
    return Cut(active, offsets, times, isinstance(target, SealedSegment))


def _cut_at(target: Segment, end: Offset) -> tuple[Position, Offset]:
    """Position and offset at which a file that must not hold `end` has to stop."""
    try:
        position = reader.locate(target.view(target.size), end)
    except CorruptRecord as damage:
        return Position(damage.position), end
    if position is None:
        return Position(target.size), end  # a gap
    header = read_header(target.file().read(HEADER_BYTES, position))
    return position, Offset(min(end, header.base_offset))


def tail_state(
    segment: Segment,
    offsets: list[OffsetPoint],
    times: list[TimePoint],
    position: Position,
    end: Offset,
) -> IndexState:
    """What `ActiveSegment` would know had it just indexed everything below `position`."""
    youngest = times[-1] if times else TimePoint(NO_TIMESTAMP, segment.base)
    since = 0
    for batch in segment.batches(offsets[-1].position if offsets else 0):
        if batch.position >= position:
            break
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
