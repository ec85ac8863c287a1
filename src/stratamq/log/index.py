"""Indexes of the shards in one key-value store. Everything in it can be rebuilt from the logs.

| row             | key                                              | value                      |
|-----------------|--------------------------------------------------|----------------------------|
| name            | ffffffff `N` name                                | shard id u32               |
| probe           | ffffffff `C`                                     |                            |
| state           | id `S`                                           | `IndexState`               |
| offset point    | id `O` segment u64, last offset u32              | position u32               |
| time point      | id `T` segment u64, timestamp u64 (sign flipped) | offset u32                 |
| key             | id `K` segment u64, hash u64, offset u32         |                            |
| tag             | id `G` segment u64, hash u64, base of batch u32  | offset deltas, u32 each    |

Big-endian; offsets are relative to the segment's base. Rows name the segment, so that dropping a
segment is a range deletion. Key and tag rows hold a hash and an offset and no position: a look-up
reads the record and compares, so a stale row or a collision costs a read and never gives a wrong
answer. So a segment can be rewritten first, and the rows of what is gone taken back afterwards.

Offset and time points leave the store when the segment is sealed (`stratamq.log.sidecar`); key and
tag rows stay as long as the segment does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import count, repeat

from stratamq.log._entries import key_rows, tag_rows
from stratamq.log.contract import PlacedBatch
from stratamq.log.kv import KVBatch, KVStore, after_prefix
from stratamq.log.sidecar import OffsetPoint, TimePoint
from stratamq.model.dataclass import dataclass
from stratamq.model.types import (
    EARLIEST,
    NO_OFFSET,
    NO_TIMESTAMP,
    Offset,
    Position,
    ShardName,
    TimestampMs,
)
from stratamq.wire.kafka.records import key_hash

NAMES = b"\xff\xff\xff\xffN"
STATE, OFFSETS, TIMES, KEYS, TAGS = b"S", b"O", b"T", b"K", b"G"
PER_SEGMENT = (OFFSETS, TIMES, KEYS, TAGS)

U32 = struct.Struct(">I")
U64 = struct.Struct(">Q")
STATE_ROW = struct.Struct(">QQIQIIqqQ")
SIGN = 1 << 63
RELATIVE_MAX = (1 << 32) - 1


@dataclass(slots=True)
class IndexState:
    """How far the indexes of a shard reach, and what is known of its active segment.

    Everything below `indexed_end`, at `indexed_position`, has its rows. Everything below
    `synced_end`, at `synced_position`, was fsynced: recovery need not look at it. Both are lower
    bounds after a crash.
    """

    segment: Offset
    indexed_end: Offset
    indexed_position: Position
    synced_end: Offset
    synced_position: Position
    records_since_point: int = 0
    first_timestamp: TimestampMs = NO_TIMESTAMP
    max_timestamp: TimestampMs = NO_TIMESTAMP
    max_timestamp_offset: Offset = EARLIEST

    def encode(self) -> bytes:
        return STATE_ROW.pack(
            self.segment,
            self.indexed_end,
            self.indexed_position,
            self.synced_end,
            self.synced_position,
            self.records_since_point,
            self.first_timestamp,
            self.max_timestamp,
            self.max_timestamp_offset,
        )

    @classmethod
    def new(cls, segment: Offset) -> IndexState:
        return cls(segment, segment, Position(0), segment, Position(0))

    @classmethod
    def decode(cls, row: bytes) -> IndexState:
        return cls(*STATE_ROW.unpack(row))


class IndexStore:
    """The rows of all shards of a node, and the short ids their keys begin with."""

    def __init__(self, kv: KVStore) -> None:
        self.kv = kv
        self._ids = {
            ShardName(key[len(NAMES) :].decode()): U32.unpack(value)[0]
            for key, value in kv.scan(NAMES, after_prefix(NAMES))
        }
        self._new_ids = count(max(self._ids.values(), default=0) + 1)

    def names(self) -> list[ShardName]:
        return list(self._ids)

    def shard(self, name: ShardName) -> ShardIndex:
        """The indexes of one shard. A new name gets a new id: ids are never used twice while any
        row of their old owner may be left. May be called by several threads."""
        if name not in self._ids:
            number = next(self._new_ids)
            row = self.kv.batch()
            row.put(NAMES + name.encode(), U32.pack(number))
            self.kv.write(row)
            self._ids[name] = number
        return ShardIndex(self.kv, U32.pack(self._ids[name]))

    def known_state(self, name: ShardName) -> IndexState | None:
        """How far the indexes of a shard reach; None where there are none."""
        return self.shard(name).state() if name in self._ids else None

    def add(self, names: Iterable[ShardName]) -> None:
        """Rows of new, empty shards, whose first segment begins with offset 0: one write for all
        of them."""
        rows = self.kv.batch()
        new = {name: next(self._new_ids) for name in names if name not in self._ids}
        first = IndexState.new(EARLIEST).encode()
        for name, number in new.items():
            rows.put(NAMES + name.encode(), U32.pack(number))
            rows.put(U32.pack(number) + STATE, first)
        self.kv.write(rows)
        self._ids |= new

    def drop(self, name: ShardName) -> None:
        """Remove every row of a shard, its name last and with them."""
        if name not in self._ids:
            return
        prefix = U32.pack(self._ids[name])
        rows = self.kv.batch()
        rows.delete_range(prefix, after_prefix(prefix))
        rows.delete(NAMES + name.encode())
        self.kv.write(rows, sync=True)
        del self._ids[name]


class ShardIndex:
    """The rows of one shard."""

    __slots__ = ("_id", "_keys", "_segment", "_tags", "kv", "state_key")

    def __init__(self, kv: KVStore, shard_id: bytes) -> None:
        self.kv, self._id = kv, shard_id
        self.state_key = shard_id + STATE
        self._segment = NO_OFFSET
        self._keys = self._tags = b""
        """How the rows of keys and tags of `_segment` begin: those last written."""

    # -- state ---------------------------------------------------------------------------------

    def state(self) -> IndexState | None:
        row = self.kv.get(self.state_key)
        return IndexState.decode(row) if row else None

    def put_state(self, rows: KVBatch, state: IndexState) -> None:
        rows.put(self.state_key, state.encode())

    # -- writing -------------------------------------------------------------------------------

    def put_offset_point(self, rows: KVBatch, segment: Offset, point: OffsetPoint) -> None:
        key = self._prefix(OFFSETS, segment) + U32.pack(point.last_offset - segment)
        rows.put(key, U32.pack(point.position))

    def put_time_point(self, rows: KVBatch, segment: Offset, point: TimePoint) -> None:
        key = self._prefix(TIMES, segment) + U64.pack(point.timestamp + SIGN)
        rows.put(key, U32.pack(point.offset - segment))

    def put_records(self, rows: KVBatch, segment: Offset, batches: list[PlacedBatch]) -> bool:
        """Key and tag rows of batches of one segment; whether there are any. Sorted, because
        RocksDB inserts neighbours faster."""
        if segment != self._segment:
            self._keys, self._tags = self._prefix(KEYS, segment), self._prefix(TAGS, segment)
            self._segment = segment
        keys, tags, some = self._keys, self._tags, False
        new: list[bytes] = []
        for header, _, scan in batches:
            relative = header.base_offset - segment
            if scan.keys:
                new += key_rows(keys, scan.keys, relative)
            if scan.tags:
                some = True
                rows.put_all(tag_rows(tags, scan.tags, relative))
        new.sort()
        rows.put_all(zip(new, repeat(b"")))
        return some or bool(new)

    def replace_records(
        self, rows: KVBatch, segment: Offset, old: PlacedBatch, new: PlacedBatch | None
    ) -> None:
        """Take back the key and tag rows of records that are gone from a batch."""
        relative = old.header.base_offset - segment
        prefix = self._prefix(KEYS, segment)
        kept = set(key_rows(prefix, new.scan.keys, relative)) if new else set()
        for key in key_rows(prefix, old.scan.keys, relative):
            if key not in kept:
                rows.delete(key)
        prefix = self._prefix(TAGS, segment)
        for key, _ in tag_rows(prefix, old.scan.tags, relative):
            rows.delete(key)
        if new:
            rows.put_all(tag_rows(prefix, new.scan.tags, relative))

    def drop_segment(self, rows: KVBatch, segment: Offset) -> None:
        for kind in PER_SEGMENT:
            prefix = self._prefix(kind, segment)
            rows.delete_range(prefix, after_prefix(prefix))

    def drop_segments_from(self, rows: KVBatch, segment: Offset) -> None:
        """All rows of this segment and of every later one."""
        for kind in PER_SEGMENT:
            rows.delete_range(self._prefix(kind, segment), after_prefix(self._id + kind))

    def drop_points(self, rows: KVBatch, segment: Offset) -> None:
        """The segment is sealed and has its sidecars."""
        for kind in (OFFSETS, TIMES):
            prefix = self._prefix(kind, segment)
            rows.delete_range(prefix, after_prefix(prefix))

    def drop_points_from(self, rows: KVBatch, segment: Offset, end: Offset) -> None:
        """Take back every offset and time point at `end` or later."""
        offsets = self._prefix(OFFSETS, segment)
        rows.delete_range(offsets + U32.pack(end - segment), after_prefix(offsets))
        for point in self._times_back(segment):
            if point.offset < end:
                break  # offsets of time points grow with their timestamps
            rows.delete(self._prefix(TIMES, segment) + U64.pack(point.timestamp + SIGN))

    def drop_records_from(self, rows: KVBatch, segment: Offset, end: Offset) -> None:
        """Take back every key and tag row at `end` or later: looks at all that the segment has.
        Where the batches can be read, `replace_records` looks at theirs alone."""
        relative = end - segment
        for kind in (KEYS, TAGS):
            for key, _ in self._rows(kind, segment):
                if U32.unpack(key[-4:])[0] >= relative:
                    rows.delete(key)

    # -- looking up ----------------------------------------------------------------------------

    def floor_offset(self, segment: Offset, offset: Offset) -> OffsetPoint | None:
        """The last point at or before `offset`: where to begin a forward scan for it."""
        prefix = self._prefix(OFFSETS, segment)
        relative = min(max(offset - segment + 1, 0), RELATIVE_MAX)
        for row in self.kv.scan_back(prefix, prefix + U32.pack(relative)):
            return _offset_point(segment, row)
        return None

    def floor_time(self, segment: Offset, timestamp: TimestampMs) -> Offset:
        """An offset so that every record of the segment before it is older than `timestamp`."""
        prefix = self._prefix(TIMES, segment)
        for _, value in self.kv.scan_back(prefix, prefix + U64.pack(timestamp + SIGN)):
            return Offset(segment + U32.unpack(value)[0])
        return segment

    def offset_points(self, segment: Offset) -> list[OffsetPoint]:
        return [_offset_point(segment, row) for row in self._rows(OFFSETS, segment)]

    def time_points(self, segment: Offset) -> list[TimePoint]:
        return [_time_point(segment, row) for row in self._rows(TIMES, segment)]

    def last_time_before(self, segment: Offset, end: Offset) -> TimePoint | None:
        """The last time point below `end`."""
        points = self._times_back(segment)
        return next((point for point in points if point.offset < end), None)

    def _times_back(self, segment: Offset) -> Iterator[TimePoint]:
        prefix = self._prefix(TIMES, segment)
        rows = self.kv.scan_back(prefix, after_prefix(prefix))
        return (_time_point(segment, row) for row in rows)

    def by_key(self, segment: Offset, key: bytes) -> Iterator[Offset]:
        """Offsets that may carry the key, newest first."""
        prefix = self._prefix(KEYS, segment) + U64.pack(key_hash(key))
        for row, _ in self.kv.scan_back(prefix, after_prefix(prefix)):
            yield Offset(segment + U32.unpack(row[-4:])[0])

    def by_tag(self, segment: Offset, tag: bytes, start: Offset) -> Iterator[Offset]:
        """Offsets from `start` on that may carry the tag, oldest first. A record that carries it
        twice is given once."""
        prefix = self._prefix(TAGS, segment) + U64.pack(key_hash(tag))
        newest = start - 1
        for row, deltas in self.kv.scan(
            self._tag_floor(prefix, segment, start), after_prefix(prefix)
        ):
            base = segment + U32.unpack(row[-4:])[0]
            for (delta,) in U32.iter_unpack(deltas):
                if base + delta > newest:
                    newest = base + delta
                    yield Offset(newest)

    def _tag_floor(self, prefix: bytes, segment: Offset, start: Offset) -> bytes:
        """The row of the last batch that begins at or before `start`: it may reach past it."""
        if start <= segment:
            return prefix
        bound = prefix + U32.pack(min(start - segment + 1, RELATIVE_MAX))
        return next((row for row, _ in self.kv.scan_back(prefix, bound)), prefix)

    def _rows(self, kind: bytes, segment: Offset) -> Iterator[tuple[bytes, bytes]]:
        prefix = self._prefix(kind, segment)
        return self.kv.scan(prefix, after_prefix(prefix))

    def _prefix(self, kind: bytes, segment: Offset) -> bytes:
        return self._id + kind + U64.pack(segment)


def _time_point(segment: Offset, row: tuple[bytes, bytes]) -> TimePoint:
    key, value = row
    timestamp = U64.unpack(key[-8:])[0] - SIGN
    return TimePoint(TimestampMs(timestamp), Offset(segment + U32.unpack(value)[0]))


def _offset_point(segment: Offset, row: tuple[bytes, bytes]) -> OffsetPoint:
    key, value = row
    return OffsetPoint(Offset(segment + U32.unpack(key[-4:])[0]), Position(U32.unpack(value)[0]))
