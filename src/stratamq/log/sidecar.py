"""Index files of a sealed segment, byte for byte as Apache Kafka writes them.

| file         | entry                                              | bytes |
|--------------|----------------------------------------------------|-------|
| `.index`     | last offset of a batch - base: u32, position: u32  | 8     |
| `.timeindex` | largest timestamp so far: i64, its offset - base: u32 | 12 |

Big-endian, ascending, without header. Both are sparse. An offset entry says: the batch that ends
with this offset begins at this position. A time entry says: no record up to here is younger than
this, and the batch that ends with this offset holds one of exactly this age.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from stratamq.log import names
from stratamq.log.disk import Buffer, Disk, replace_file
from stratamq.log.scan import Intact
from stratamq.model.types import NO_TIMESTAMP, Offset, Position, TimestampMs

SIDECARS = (names.OFFSET_INDEX, names.TIME_INDEX)

POINT_EVERY_RECORDS = 1000
"""Density of the sparse indexes: 10 million records have 10,000 points."""

SPAN_MAX = (1 << 31) - 1
"""Offsets inside a segment are 32-bit signed in Kafka's index files."""

OFFSET_ENTRY = struct.Struct(">II")
TIME_ENTRY = struct.Struct(">qI")

assert OFFSET_ENTRY.size == 8, "Kafka's OffsetIndex has 8-byte entries"
assert TIME_ENTRY.size == 12, "Kafka's TimeIndex has 12-byte entries"


class OffsetPoint(NamedTuple):
    """The batch that ends with `last_offset` begins at `position`."""

    last_offset: Offset
    position: Position


class TimePoint(NamedTuple):
    """`timestamp` is the largest up to here; the batch ending with `offset` was the first to have
    it."""

    timestamp: TimestampMs
    offset: Offset


def encode_offset_points(base: Offset, points: Iterable[OffsetPoint]) -> bytes:
    return b"".join(OFFSET_ENTRY.pack(point.last_offset - base, point.position) for point in points)


def encode_time_points(base: Offset, points: Iterable[TimePoint]) -> bytes:
    return b"".join(TIME_ENTRY.pack(point.timestamp, point.offset - base) for point in points)


class OffsetSidecar:
    """Look-ups in an `.index` file."""

    __slots__ = ("_base", "_data", "_entries")

    def __init__(self, base: Offset, data: Buffer) -> None:
        self._base, self._data = base, data
        self._entries = len(data) // OFFSET_ENTRY.size

    def floor(self, offset: Offset) -> OffsetPoint | None:
        """The last point at or before `offset`: where to begin a forward scan for it."""
        low, high = 0, self._entries
        while low < high:
            middle = (low + high) // 2
            if self.point(middle).last_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return self.point(low - 1) if low else None

    def point(self, number: int) -> OffsetPoint:
        relative, position = OFFSET_ENTRY.unpack_from(self._data, number * OFFSET_ENTRY.size)
        return OffsetPoint(Offset(self._base + relative), Position(position))

    def __len__(self) -> int:
        return self._entries


class TimeSidecar:
    """Look-ups in a `.timeindex` file."""

    __slots__ = ("_base", "_data", "_entries")

    def __init__(self, base: Offset, data: Buffer) -> None:
        self._base, self._data = base, data
        self._entries = len(data) // TIME_ENTRY.size

    def floor(self, timestamp: TimestampMs) -> TimePoint | None:
        """The last point before `timestamp`: every record before its offset is older."""
        low, high = 0, self._entries
        while low < high:
            middle = (low + high) // 2
            if self.point(middle).timestamp < timestamp:
                low = middle + 1
            else:
                high = middle
        return self.point(low - 1) if low else None

    def last(self) -> TimePoint | None:
        return self.point(self._entries - 1) if self._entries else None

    def point(self, number: int) -> TimePoint:
        timestamp, relative = TIME_ENTRY.unpack_from(self._data, number * TIME_ENTRY.size)
        return TimePoint(TimestampMs(timestamp), Offset(self._base + relative))

    def __len__(self) -> int:
        return self._entries


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
            append_time(times, youngest)
            since = 0
        since += header.record_count
    append_time(times, youngest)
    return offsets, times


def append_time(times: list[TimePoint], point: TimePoint) -> None:
    if point.timestamp >= 0 and (not times or point.timestamp > times[-1].timestamp):
        times.append(point)


def write_sidecars(
    disk: Disk, folder: Path, base: Offset, offsets: list[OffsetPoint], times: list[TimePoint]
) -> None:
    """Both files of a segment, durable. A sidecar that can be seen is whole."""
    for suffix, data in (
        (names.OFFSET_INDEX, encode_offset_points(base, offsets)),
        (names.TIME_INDEX, encode_time_points(base, times)),
    ):
        replace_file(disk, folder / names.segment_file(base, suffix), data)
