"""Rows of EngineRocksDB: a whole shard as keys and values.

| row           | key                                              | value                         |
|---------------|--------------------------------------------------|-------------------------------|
| shard         | ffffffff `P` name                                | id u32, spec as JSON          |
| watermark     | ffffffff `H` name                                | high watermark u64            |
| probe         | ffffffff `C`                                     |                               |
| batch         | id `B` last offset u64                           | the batch, as it is sent      |
| segment       | id `M` base offset u64                           | `SegmentRow`                  |
| deletion mark | id `D` offset u64                                |                               |
| epoch         | id `E` epoch u32                                 | start offset u64              |
| start         | id `F`                                           | start offset u64              |
| local start   | id `L`                                           | offset u64: offloaded below   |
| snapshot      | id `S` offset u64                                | see docs/formats              |
| key, tag, time point                                             || as in `stratamq.log.index`
|

Big-endian, so that the order of keys is the order of numbers. A batch lies under its last offset:
the first row at or after an offset is the batch that holds it, or the next there is. Everything
that follows from a batch is written with it, so there is nothing to recover."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stratamq.log.contract import EpochStart, PlacedBatch, SegmentInfo
from stratamq.log.index import U32, U64, ShardIndex
from stratamq.log.kv import KVBatch, after_prefix
from stratamq.log.sidecar import TimePoint
from stratamq.model.types import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs

BATCHES, SEGMENTS, MARKS, EPOCHS, SNAPSHOTS = b"B", b"M", b"D", b"E", b"S"
START, LOCAL_START = b"F", b"L"
SEGMENT_ROW = struct.Struct(">QQqqQIq")
UNTIMED_ROW = struct.Struct(">QQqqQI")
"""As earlier versions wrote it, without the time of the last write."""


class SegmentRow(NamedTuple):
    """What is known of a segment. `max_timestamp_offset` is at or after the record that has it;
    `unpointed` counts the records since the last time point; `written_ms` is when it was last
    written."""

    base: Offset
    end: Offset
    size_bytes: int = 0
    first_timestamp: TimestampMs = NO_TIMESTAMP
    max_timestamp: TimestampMs = NO_TIMESTAMP
    max_timestamp_offset: Offset = Offset(0)
    unpointed: int = 0
    written_ms: TimestampMs = NO_TIMESTAMP

    def info(self, active: bool) -> SegmentInfo:
        return SegmentInfo(
            self.base,
            self.end,
            self.size_bytes,
            self.first_timestamp,
            self.max_timestamp,
            active,
            self.written_ms if self.max_timestamp < 0 < self.size_bytes else NO_TIMESTAMP,
        )

    def with_batch(self, batch: PlacedBatch, now_ms: TimestampMs) -> SegmentRow:
        header = batch.header
        stamp = header.max_timestamp
        younger = stamp > self.max_timestamp
        return SegmentRow(
            self.base,
            header.next_offset,
            self.size_bytes + header.size_bytes,
            self.first_timestamp if self.size_bytes else stamp,
            stamp if younger else self.max_timestamp,
            header.last_offset if younger else self.max_timestamp_offset,
            self.unpointed + header.record_count,
            now_ms,
        )


class ShardRows(ShardIndex):
    """The rows of one shard: its indexes, as in a file log, and everything else as well."""

    __slots__ = ()

    # -- batches -------------------------------------------------------------------------------

    def put_batch(self, rows: KVBatch, batch: PlacedBatch) -> None:
        rows.put(self._at(BATCHES, batch.header.last_offset), batch.data)

    def batches(self, offset: Offset, end: Offset) -> Iterator[tuple[Offset, bytes]]:
        """Last offset and bytes of the batches from the one that holds `offset` on, wholly below
        `end`."""
        for key, data in self.kv.scan(self._at(BATCHES, offset), self._at(BATCHES, end)):
            yield Offset(U64.unpack(key[-8:])[0]), data

    def drop_batch(self, rows: KVBatch, last_offset: Offset) -> None:
        rows.delete(self._at(BATCHES, last_offset))

    def drop_batches_below(self, rows: KVBatch, end: Offset) -> None:
        rows.delete_range(self._at(BATCHES, Offset(0)), self._at(BATCHES, end))

    def drop_batches_from(self, rows: KVBatch, end: Offset) -> None:
        rows.delete_range(self._at(BATCHES, end), after_prefix(self._id + BATCHES))

    # -- segments ------------------------------------------------------------------------------

    def put_segment(self, rows: KVBatch, segment: SegmentRow) -> None:
        rows.put(self._at(SEGMENTS, segment.base), SEGMENT_ROW.pack(*segment[1:]))

    def segments(self) -> tuple[SegmentRow, ...]:
        found = []
        for key, value in self._all(SEGMENTS):
            row = UNTIMED_ROW if len(value) == UNTIMED_ROW.size else SEGMENT_ROW
            found.append(SegmentRow(Offset(U64.unpack(key[-8:])[0]), *row.unpack(value)))
        return tuple(found)

    def drop_whole_segment(self, rows: KVBatch, segment: SegmentRow) -> None:
        """Its row and its indexes; its batches go by offset."""
        self.drop_segment(rows, segment.base)
        rows.delete(self._at(SEGMENTS, segment.base))

    def put_point(self, rows: KVBatch, segment: SegmentRow) -> None:
        point = TimePoint(segment.max_timestamp, segment.max_timestamp_offset)
        self.put_time_point(rows, segment.base, point)

    # -- history -------------------------------------------------------------------------------

    def put_marks(self, rows: KVBatch, offsets: Iterable[Offset]) -> None:
        for offset in offsets:
            rows.put(self._at(MARKS, offset), b"")

    def marks(self) -> set[Offset]:
        return {Offset(U64.unpack(key[-8:])[0]) for key, _ in self._all(MARKS)}

    def drop_marks(self, rows: KVBatch, begin: Offset, end: Offset | None) -> None:
        bound = self._at(MARKS, end) if end is not None else after_prefix(self._id + MARKS)
        rows.delete_range(self._at(MARKS, begin), bound)

    def replace_epochs(self, rows: KVBatch, history: Iterable[EpochStart]) -> None:
        rows.delete_range(self._id + EPOCHS, after_prefix(self._id + EPOCHS))
        for epoch, start in history:
            rows.put(self._id + EPOCHS + U32.pack(epoch), U64.pack(start))

    def epochs(self) -> tuple[EpochStart, ...]:
        return tuple(
            EpochStart(LeaderEpoch(U32.unpack(key[-4:])[0]), Offset(U64.unpack(value)[0]))
            for key, value in self._all(EPOCHS)
        )

    def put_start(self, rows: KVBatch, start: Offset) -> None:
        rows.put(self._id + START, U64.pack(start))

    def start(self) -> Offset:
        return self._offset(START)

    def put_local_start(self, rows: KVBatch, start: Offset) -> None:
        rows.put(self._id + LOCAL_START, U64.pack(start))

    def local_start(self) -> Offset:
        return self._offset(LOCAL_START)

    def _offset(self, kind: bytes) -> Offset:
        row = self.kv.get(self._id + kind)
        return Offset(U64.unpack(row)[0]) if row else Offset(0)

    def put_snapshot(self, rows: KVBatch, offset: Offset, data: bytes) -> None:
        rows.put(self._at(SNAPSHOTS, offset), data)

    def snapshot(self, offset: Offset) -> bytes | None:
        return self.kv.get(self._at(SNAPSHOTS, offset))

    def snapshot_offsets(self) -> list[Offset]:
        return [Offset(U64.unpack(key[-8:])[0]) for key, _ in self._all(SNAPSHOTS)]

    def drop_snapshot(self, rows: KVBatch, offset: Offset) -> None:
        rows.delete(self._at(SNAPSHOTS, offset))

    def drop_everything(self, rows: KVBatch) -> None:
        rows.delete_range(self._id, after_prefix(self._id))

    def _at(self, kind: bytes, offset: Offset) -> bytes:
        return self._id + kind + U64.pack(offset)

    def _all(self, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self.kv.scan(self._id + kind, after_prefix(self._id + kind))


class RowSnapshots:
    """See `stratamq.log.snapshots`. RocksDB keeps writes in their order: a row that survives a
    power cut was written after every batch that it speaks of, and those survive as well."""

    __slots__ = ("_rows",)

    def __init__(self, rows: ShardRows) -> None:
        self._rows = rows

    def offsets(self) -> Sequence[Offset]:
        return self._rows.snapshot_offsets()

    def load(self, offset: Offset) -> bytes:
        return self._rows.snapshot(offset) or b""

    def save(self, offset: Offset, data: bytes, *, durable: bool = False) -> None:
        rows = self._rows.kv.batch()
        self._rows.put_snapshot(rows, offset, data)
        self._rows.kv.write(rows, sync=durable)

    def forget(self, offset: Offset) -> None:
        rows = self._rows.kv.batch()
        self._rows.drop_snapshot(rows, offset)
        self._rows.kv.write(rows)
