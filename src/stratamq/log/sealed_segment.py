"""A segment that is never written again, with its index points in Kafka's index files."""

from __future__ import annotations

import logging
from pathlib import Path

from stratamq.log import names, reader, sidecar
from stratamq.log.contract import SegmentInfo
from stratamq.log.disk import Buffer, Disk, File
from stratamq.log.index import ShardIndex
from stratamq.log.scan import intact_at
from stratamq.log.segment import Segment
from stratamq.log.sidecar import (
    SIDECARS,
    OffsetPoint,
    OffsetSidecar,
    TimePoint,
    TimeSidecar,
    collect_points,
)
from stratamq.model.errors import CorruptRecord, InvalidInput
from stratamq.model.types import NO_TIMESTAMP, Offset, TimestampMs
from stratamq.wire.kafka.records import HEADER_BYTES, read_header

logger = logging.getLogger(__name__)


class SealedSegment(Segment):
    """Immutable. Its sidecars are mapped when needed, and the disk caches the maps. `known` is what
    `info` returns, from the first time on: it takes a look into three files."""

    __slots__ = ("_first_timestamp", "_offsets", "_pinned", "_times", "_trusted", "known")

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
        self.known: SegmentInfo | None = None

    def file(self) -> File:
        return self._pinned or self.disk.open(self.path)

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> bytes:
        data = super().read(offset, max_bytes, end)
        if not data and self.cut_short and end >= self.end:
            raise self.refusal(offset)
        return data

    def pin(self) -> None:
        """Hold log and sidecars open: their names are about to mean other files, and a read that is
        under way must not see half of the old files and half of the new."""
        self._pinned = self.file()
        self._offsets = self._offset_sidecar()
        self._times = self._time_sidecar()

    def unpin(self) -> None:
        """The names keep their meaning after all: the files may be closed."""
        self._pinned = self._offsets = self._times = None

    def floor(self, offset: Offset) -> OffsetPoint | None:
        return self._offset_sidecar().floor(offset)

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        point = self._time_sidecar().floor(timestamp)
        if point is not None and not self._agrees(point):
            point = self._rebuilt_times().floor(timestamp)
        return point.offset if point is not None else self.base

    def points(self) -> tuple[list[OffsetPoint], list[TimePoint]]:
        """From the sidecars, if the log agrees with each point: sidecars have no checksums, and the
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
            agrees = stamps.get(time.offset) == time.timestamp
            if not agrees and not self._agrees(time):
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
        if self.known is None:
            last = self._time_sidecar().last()
            youngest = last.timestamp if last else NO_TIMESTAMP
            written_ms = self.written_ms(youngest)
            self.known = SegmentInfo(
                self.base, self.end, self.size, self._first(), youngest, False, written_ms
            )
        return self.known

    def unlink(self) -> None:
        """Remove the files. The log goes last: a log without sidecars gets new ones, and a sidecar
        without its log would be litter."""
        self.unlink_sidecars()
        self.disk.unlink(self.path)

    def unlink_sidecars(self) -> None:
        for suffix in SIDECARS:
            self.disk.unlink(self.sidecar(suffix))

    def has_sidecars(self) -> bool:
        """Whether both are there, are files and are of a possible size."""
        entries = (sidecar.OFFSET_ENTRY, sidecar.TIME_ENTRY)
        try:
            return not any(
                self.disk.size(path) % entry.size
                for path, entry in zip(map(self.sidecar, SIDECARS), entries, strict=True)
            )
        except OSError:
            return False

    def rebuild_sidecars(self) -> None:
        points = collect_points(self.batches())
        sidecar.write_sidecars(self.disk, self.folder, self.base, *points)

    def _offset_sidecar(self) -> OffsetSidecar:
        if self._offsets is not None:
            return self._offsets
        return OffsetSidecar(self.base, self._map(names.OFFSET_INDEX))

    def _time_sidecar(self) -> TimeSidecar:
        if self._times is not None:
            return self._times
        times = TimeSidecar(self.base, self._map(names.TIME_INDEX))
        if not self._trusted and not self._agrees(times.last()):
            return self._rebuilt_times()
        self._trusted = True
        return times

    def _agrees(self, point: TimePoint | None) -> bool:
        """Whether the log agrees with the point. Searches and retention rely on these points, and
        the file has no checksum."""
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
        logger.error("%s: the log does not agree with it; rebuilt in memory", path)
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
