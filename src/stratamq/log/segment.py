"""One segment: a `.log` file and the way into it.

An `ActiveSegment` is written at its end by one writer; its index points are in the key-value store.
A `SealedSegment` never changes; its index points are its sidecar files. Reading is the same for
both.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from stratamq.log import names, reader, sidecar
from stratamq.log.contract import PlacedBatch, SegmentInfo
from stratamq.log.disk import Buffer, Disk, File, replace_file
from stratamq.log.index import IndexState, ShardIndex
from stratamq.log.kv import KVBatch
from stratamq.log.scan import LENGTH_END, SCAN_BYTES, Damage, Intact, intact_at, scan
from stratamq.log.sidecar import OffsetPoint, OffsetSidecar, TimePoint, TimeSidecar
from stratamq.model.errors import CorruptRecord, InvalidInput
from stratamq.model.types import NO_TIMESTAMP, Offset, Position, TimestampMs
from stratamq.wire.kafka.records import HEADER_BYTES, read_header, walk

logger = logging.getLogger(__name__)

POINT_EVERY_RECORDS = 1000
"""Density of the sparse indexes: 10 million records have 10,000 points."""

AT_ONCE_BYTES = 64 << 10
"""What an event loop may read and check in passing."""

HINTS_MAX = 8

SIDECARS = (names.OFFSET_INDEX, names.TIME_INDEX)

SPAN_MAX = (1 << 31) - 1
"""Offsets inside a segment are 32-bit signed in Kafka's index files."""


class Segment(ABC):
    """What active and sealed segments share: where they are, what they span, and reading."""

    __slots__ = ("_hints", "base", "cut_short", "disk", "end", "folder", "index", "path", "size")

    def __init__(self, disk: Disk, folder: Path, index: ShardIndex, base: Offset) -> None:
        self.disk, self.folder, self.index, self.base = disk, folder, index, base
        self.path = folder / names.segment_file(base, names.LOG)
        self.size = 0
        self.end = base
        self.cut_short = False
        """Whether the file is shorter than it was: what its end lacks is damage, not a gap."""
        self._hints: dict[Offset, int] = {base: 0}

    @abstractmethod
    def floor(self, offset: Offset) -> OffsetPoint | None:
        """The last index point at or before `offset`."""

    @abstractmethod
    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        """An offset so that every record of the segment before it is older."""

    @abstractmethod
    def points(self) -> tuple[list[OffsetPoint], list[TimePoint]]:
        """The sparse indexes, whole."""

    @abstractmethod
    def info(self) -> SegmentInfo: ...

    def file(self) -> File:
        return self.disk.open(self.path)

    def written_ms(self, max_timestamp: TimestampMs) -> TimestampMs:
        """For `SegmentInfo`: asked for only where the records do not say how old they are."""
        if max_timestamp >= 0 or not self.size:
            return NO_TIMESTAMP
        return TimestampMs(self.disk.modified_ms(self.path))

    def sidecar(self, suffix: str) -> Path:
        return self.folder / names.segment_file(self.base, suffix)

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        """Intact batches from the one holding `offset` on; see ShardStore.read."""
        offset, size = max(offset, self.base), self.size
        if not size:
            return b""  # its file may not be made yet
        view = self.view(size)
        position = reader.locate(view, offset, self._hinted(offset))
        if position is None:
            return b""
        data = reader.read_intact(view, position, max_bytes, end, offset)
        if data:
            self._remember(_next_offset(data), position + len(data))
        return data

    def refusal(self, offset: Offset) -> CorruptRecord:
        """The error for reading, from `offset` on, what the end of the file lacks."""
        first = max(offset, self.base)
        end = max(self.end, first + 1)
        return CorruptRecord(str(self.path), self.size, first, end, "its bytes are gone")

    def read_at_once(self, offset: Offset, max_bytes: int, end: Offset) -> bytes | None:
        """A little, from where somebody stopped before, without waiting; None unless all is
        plain."""
        size, position = self.size, self._hints.get(offset)
        if position is None or not 0 < size - position <= AT_ONCE_BYTES:
            return None
        chunk = self.file().read_at_once(size - position, position)
        data = b"" if chunk is None else reader.plain_batches(chunk, offset, max_bytes, end)
        if data:
            self._remember(_next_offset(data), position + len(data))
        return data or None

    def view(self, size: int) -> reader.View:
        """The segment as it is now. `size` is taken first: a writer raises the end before it."""
        return reader.View(str(self.path), self.file(), size, self.base, self.end, self.floor)

    def scan(self, position: int = 0) -> Iterator[Intact | Damage]:
        return scan(self.view(self.size).stretch(), position, self.base)

    def batches(self, position: int = 0) -> Iterator[Intact]:
        return (found for found in self.scan(position) if isinstance(found, Intact))

    def _hinted(self, offset: Offset) -> reader.Place | None:
        """A consumer that reads on where it stopped needs no index."""
        position = self._hints.get(offset)
        return None if position is None else reader.Place(position, offset, proven=True)

    def _remember(self, offset: Offset, position: int) -> None:
        """Where some reader will go on. Readers and the writer do this without a lock."""
        hints = self._hints
        hints[offset] = position
        if len(hints) > HINTS_MAX:
            with suppress(RuntimeError, StopIteration):  # another thread was faster
                hints.pop(next(iter(hints)), None)


def _next_offset(data: bytes) -> Offset:
    return Offset(walk(data)[-1].last_offset + 1)


class ActiveSegment(Segment):
    """After `append` the bytes may be lost in a power cut; after `sync` they may not.

    `stage` gives the index rows of what was appended since the last `stage`; the caller writes
    them. Until then look-ups by key and tag do not find the new records; reading by offset does.
    """

    __slots__ = ("_held", "_staged", "state")

    def __init__(self, disk: Disk, folder: Path, index: ShardIndex, base: Offset) -> None:
        super().__init__(disk, folder, index, base)
        self.state = IndexState.new(base)
        self._staged: list[PlacedBatch] = []
        self._held: File | None = None

    @classmethod
    def create(cls, disk: Disk, folder: Path, index: ShardIndex, base: Offset) -> ActiveSegment:
        """A new, empty file whose name is durable."""
        segment = cls(disk, folder, index, base)
        try:
            segment.make_file()
        except OSError:
            disk.unlink(segment.path)  # the segment before it goes on, past this one's base
            raise
        return segment

    @classmethod
    def at(
        cls, disk: Disk, folder: Path, index: ShardIndex, state: IndexState, size: int
    ) -> ActiveSegment:
        """An existing file of which `state` tells what is indexed."""
        segment = cls(disk, folder, index, state.segment)
        segment.state = state
        segment.size = size
        segment.end = state.indexed_end
        return segment

    def make_file(self) -> None:
        self.disk.open(self.path, create=True).truncate(0)
        self.disk.sync_folder(self.folder)

    def append(self, batches: Sequence[PlacedBatch], *, durable: bool = False) -> None:
        """One write for all. On OSError the file is as long as before as far as readers can
        tell. With `durable` it is synced as well, where nothing older waits for that."""
        self._remember(self.end, self.size)  # for those who wait at the end
        written = [part for batch in batches for part in batch.parts]
        durable = durable and self.state.synced_position == self.size
        self._hold().write(written, self.size, durable=durable)
        self._staged.extend(batches)
        self.end = Offset(batches[-1].header.next_offset)
        if not self.size:
            self.state.first_timestamp = batches[0].header.max_timestamp
        self.size += sum(map(len, written))
        if durable:
            self._note_synced()

    def undo(self, size: int, end: Offset) -> None:
        """Take back an append that failed. What is not held was not written to."""
        if self._held is not None:
            self._held.truncate(size)
        self.size, self.end = size, end
        if not size:
            self.state.first_timestamp = NO_TIMESTAMP
        self._staged = [batch for batch in self._staged if batch.header.base_offset < end]

    def write_again(self) -> None:
        """Put every byte that is not known to be synced into the file anew: after an fsync that
        failed, the kernel takes its bytes for written, and a sync alone would find nothing to
        do."""
        file, position = self._hold(), int(self.state.synced_position)
        while position < self.size:
            chunk = file.read(min(SCAN_BYTES, self.size - position), position)
            file.write([chunk], position)
            position += len(chunk)

    def sync(self) -> None:
        if self.state.synced_position < self.size:
            self._hold().sync()
            self._note_synced()
        self._held = None

    def _note_synced(self) -> None:
        self.state.synced_position, self.state.synced_end = Position(self.size), self.end

    def stage(self, rows: KVBatch, *, state_alone: bool = True) -> None:
        """Rows for everything appended since, points and state included; the state not where it
        would be `state_alone` and that is not wanted."""
        before = len(rows)
        if self._staged:
            staged, self._staged = self._staged, []
            self.index.put_records(rows, self.base, staged)
            self._stage_points(rows, staged)
        if state_alone or len(rows) > before:
            self.index.put_state(rows, self.state)

    def reindex(self, rows: KVBatch, batch: PlacedBatch, position: Position) -> None:
        """Rows of a batch that recovery found at `position`, after everything indexed so far."""
        if not self.state.indexed_position:
            self.state.first_timestamp = batch.header.max_timestamp
        self.state.indexed_position = position
        self.index.put_records(rows, self.base, [batch])
        self._stage_points(rows, [batch])

    def _stage_points(self, rows: KVBatch, batches: Sequence[PlacedBatch]) -> None:
        """A point per POINT_EVERY_RECORDS records, at batch boundaries, as Kafka places them."""
        state = self.state
        position, since = int(state.indexed_position), state.records_since_point
        for header, _, _ in batches:
            if header.max_timestamp > state.max_timestamp:
                state.max_timestamp = header.max_timestamp
                state.max_timestamp_offset = header.last_offset
            if since >= POINT_EVERY_RECORDS:
                self._put_points(rows, OffsetPoint(header.last_offset, Position(position)))
                since = 0
            since += header.record_count
            position += header.batch_length + LENGTH_END
        state.indexed_position, state.records_since_point = Position(position), since
        state.indexed_end = batches[-1].header.next_offset

    def _put_points(self, rows: KVBatch, point: OffsetPoint) -> None:
        state = self.state
        self.index.put_offset_point(rows, self.base, point)
        if state.max_timestamp >= 0:
            time = TimePoint(state.max_timestamp, state.max_timestamp_offset)
            self.index.put_time_point(rows, self.base, time)

    def seal(self) -> SealedSegment:
        """Write the sidecars of a segment that is synced and indexed. The caller drops the points
        from the store afterwards."""
        offsets, times = self.points()
        _append_time(times, TimePoint(self.state.max_timestamp, self.state.max_timestamp_offset))
        write_sidecars(self, offsets, times)
        return SealedSegment(self.disk, self.folder, self.index, self.base, self.end)

    def floor(self, offset: Offset) -> OffsetPoint | None:
        return self.index.floor_offset(self.base, offset)

    def points(self) -> tuple[list[OffsetPoint], list[TimePoint]]:
        return self.index.offset_points(self.base), self.index.time_points(self.base)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        return self.index.floor_time(self.base, timestamp)

    def info(self) -> SegmentInfo:
        first, youngest = self.state.first_timestamp, self.state.max_timestamp
        written_ms = self.written_ms(youngest)
        return SegmentInfo(self.base, self.end, self.size, first, youngest, True, written_ms)

    def _hold(self) -> File:
        """The file, held until the next sync: a sync through another descriptor, opened later,
        might not be told of a write that failed."""
        if self._held is None:
            self._held = self.disk.open(self.path, create=True)
        return self._held


class SealedSegment(Segment):
    """Immutable. Its sidecars are mapped when needed; the disk keeps the maps in use."""

    __slots__ = ("_first_timestamp", "_offsets", "_pinned", "_times", "_trusted")

    def __init__(
        self, disk: Disk, folder: Path, index: ShardIndex, base: Offset, end: Offset
    ) -> None:
        super().__init__(disk, folder, index, base)
        self._pinned: File | None = None
        self.size = disk.size(self.path)
        self.end = end
        self._offsets: OffsetSidecar | None = None
        self._times: TimeSidecar | None = None
        self._trusted = False
        self._first_timestamp: TimestampMs | None = None

    def file(self) -> File:
        return self._pinned or self.disk.open(self.path)

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        data = super().read(offset, max_bytes, end)
        if not data and self.cut_short and end >= self.end:
            raise self.refusal(offset)
        return data

    def pin(self) -> None:
        """Hold on to log and sidecars: their names are about to mean other files, and readers that
        are at work must not meet half of the old ones and half of the new."""
        self._pinned = self.file()
        self._offsets = self._offset_sidecar()
        self._times = self._time_sidecar()

    def floor(self, offset: Offset) -> OffsetPoint | None:
        return self._offset_sidecar().floor(offset)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        point = self._time_sidecar().floor(timestamp)
        if point is not None and not self._bears_out(point):
            point = self._rebuilt_times().floor(timestamp)
        return point.offset if point is not None else self.base

    def points(self) -> tuple[list[OffsetPoint], list[TimePoint]]:
        """From the sidecars, if the log bears out each point; they have no checksums, and the
        caller relies on the points. Else from the log itself."""
        placed, timed = self._offset_sidecar(), self._time_sidecar()
        offsets = [placed.point(number) for number in range(len(placed))]
        times = [timed.point(number) for number in range(len(timed))]
        stamps: dict[Offset, int] = {}
        for point in offsets:
            stamp = self._stamp_at(point)
            if stamp is None:
                return collect_points(self.batches())
            stamps[point.last_offset] = stamp
        for time in times:
            borne_out = stamps.get(time.offset) == time.timestamp
            if not borne_out and not self._bears_out(time):
                return collect_points(self.batches())
        return offsets, times

    def _stamp_at(self, point: OffsetPoint) -> int | None:
        """The largest timestamp of the batch that the point is about; None if it is not there."""
        try:
            header = read_header(self.file().read(HEADER_BYTES, point.position))
        except InvalidInput:
            return None
        return header.max_timestamp if header.last_offset == point.last_offset else None

    def info(self) -> SegmentInfo:
        last = self._time_sidecar().last()
        youngest = last.timestamp if last else NO_TIMESTAMP
        written_ms = self.written_ms(youngest)
        return SegmentInfo(
            self.base, self.end, self.size, self._first(), youngest, False, written_ms
        )

    def unlink(self) -> None:
        """Remove the files. The log goes last: a log without sidecars gets new ones, and a sidecar
        without its log would be litter."""
        self.unlink_sidecars()
        self.disk.unlink(self.path)

    def unlink_sidecars(self) -> None:
        for suffix in SIDECARS:
            self.disk.unlink(self.sidecar(suffix))

    def has_sidecars(self) -> bool:
        """Whether both are there and of a possible size."""
        entries = (sidecar.OFFSET_ENTRY, sidecar.TIME_ENTRY)
        return all(
            self.disk.exists(path) and not self.disk.size(path) % entry.size
            for path, entry in zip(map(self.sidecar, SIDECARS), entries, strict=True)
        )

    def rebuild_sidecars(self) -> None:
        write_sidecars(self, *collect_points(self.batches()))

    def _offset_sidecar(self) -> OffsetSidecar:
        if self._offsets is not None:
            return self._offsets
        return OffsetSidecar(self.base, self._map(names.OFFSET_INDEX))

    def _time_sidecar(self) -> TimeSidecar:
        if self._times is not None:
            return self._times
        times = TimeSidecar(self.base, self._map(names.TIME_INDEX))
        if not self._trusted and not self._bears_out(times.last()):
            return self._rebuilt_times()
        self._trusted = True
        return times

    def _bears_out(self, point: TimePoint | None) -> bool:
        """Whether the log agrees. Searches and retention rely on these points, and the file has no
        checksum."""
        if point is None:
            return self._first() < 0
        try:
            position = reader.locate(self.view(self.size), point.offset)
        except CorruptRecord:
            return False
        if position is None:
            return False
        header = read_header(self.file().read(HEADER_BYTES, position))
        return (header.last_offset, header.max_timestamp) == (point.offset, point.timestamp)

    def _rebuilt_times(self) -> TimeSidecar:
        path = self.sidecar(names.TIME_INDEX)
        logger.error("%s: the log does not bear it out; rebuilt in memory", path)
        _, times = collect_points(self.batches())
        self._times = TimeSidecar(self.base, sidecar.encode_time_points(self.base, times))
        return self._times

    def _map(self, suffix: str) -> Buffer:
        return self.disk.map(self.sidecar(suffix))

    def _first(self) -> TimestampMs:
        if self._first_timestamp is None:
            stretch = self.view(self.size).stretch()
            first = intact_at(stretch, 0) or next(self.batches(), None)
            self._first_timestamp = (
                TimestampMs(first.header.max_timestamp) if first else NO_TIMESTAMP
            )
        return self._first_timestamp


class LostSegment(Segment):
    """Offsets that were given out and whose bytes are gone. Reading them is refused by name, and
    no record ever gets one of them again."""

    __slots__ = ()

    def __init__(
        self, disk: Disk, folder: Path, index: ShardIndex, base: Offset, end: Offset
    ) -> None:
        super().__init__(disk, folder, index, base)
        self.end = end
        self.cut_short = True

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        raise self.refusal(offset)

    def floor(self, offset: Offset) -> OffsetPoint | None:
        return None

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        return self.base

    def points(self) -> tuple[list[OffsetPoint], list[TimePoint]]:
        return [], []

    def scan(self, position: int = 0) -> Iterator[Intact | Damage]:
        return iter([Damage(Position(0), None)])

    def info(self) -> SegmentInfo:
        """It has no age: retention removes it together with the segment after it."""
        return SegmentInfo(self.base, self.end, 0, NO_TIMESTAMP, NO_TIMESTAMP, active=False)


def collect_points(batches: Iterable[Intact]) -> tuple[list[OffsetPoint], list[TimePoint]]:
    """The points that an active segment with these batches would have been sealed with."""
    offsets: list[OffsetPoint] = []
    times: list[TimePoint] = []
    youngest = TimePoint(NO_TIMESTAMP, Offset(0))
    since = 0
    for position, header, _ in batches:
        if header.max_timestamp > youngest.timestamp:
            youngest = TimePoint(TimestampMs(header.max_timestamp), Offset(header.last_offset))
        if since >= POINT_EVERY_RECORDS:
            offsets.append(OffsetPoint(Offset(header.last_offset), position))
            _append_time(times, youngest)
            since = 0
        since += header.record_count
    _append_time(times, youngest)
    return offsets, times


def _append_time(times: list[TimePoint], point: TimePoint) -> None:
    if point.timestamp >= 0 and (not times or point.timestamp > times[-1].timestamp):
        times.append(point)


def write_sidecars(segment: Segment, offsets: list[OffsetPoint], times: list[TimePoint]) -> None:
    """Both files, durable. A sidecar that can be seen is whole."""
    for kind, data in (
        (names.OFFSET_INDEX, sidecar.encode_offset_points(segment.base, offsets)),
        (names.TIME_INDEX, sidecar.encode_time_points(segment.base, times)),
    ):
        replace_file(segment.disk, segment.sidecar(kind), data)
