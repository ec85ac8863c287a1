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
from typing import NamedTuple

from stratamq.log.disk import Buffer
from stratamq.model.types import Offset, Position, TimestampMs

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
