"""One segment in memory, with its four indexes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct

from stratamq.log.contract import PlacedBatch, SegmentInfo
from stratamq.model.types import NO_TIMESTAMP, Offset, TimestampMs
from stratamq.wire.kafka.records import ENTRY_BYTES, BatchHeader, read_header

ENTRY = Struct(">QI")
assert ENTRY.size == ENTRY_BYTES, "entries are unpacked as the scanner packs them"

BATCH_WEIGHT = 250
"""What a batch costs beside its bytes: the object around them, its places in the lists."""

ENTRY_WEIGHT = 120
"""What a key or a tag costs in its index, when no other shares its hash."""

Index = dict[int, int | list[int]]
"""Offsets by hash, ascending. One offset, the usual case for keys, needs no list."""


class MemorySegment:
    """A run of batches. Lists only grow while readers look on; a batch is listed before its offset
    is, so who finds the offset finds the batch."""

    __slots__ = (
        "base",
        "batches",
        "end",
        "first_timestamp",
        "keys",
        "lasts",
        "max_timestamp",
        "size_bytes",
        "tags",
        "weight",
        "written_ms",
        "youngest",
    )

    def __init__(self, base: Offset) -> None:
        self.base = base
        self.end = base
        self.size_bytes = 0
        self.weight = 0
        self.first_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.written_ms = NO_TIMESTAMP
        """When it was last written; see SegmentInfo."""
        self.batches: list[bytes] = []
        self.lasts: list[int] = []
        """Offset index: the last offset of each batch."""
        self.youngest: list[int] = []
        """Time index: the largest timestamp up to and including each batch."""
        self.keys: Index = {}
        self.tags: Index = {}

    def append(self, batch: PlacedBatch) -> int:
        """The weight it added."""
        header, data, scan = batch.header, batch.data, batch.scan
        if not self.batches:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
        base = header.base_offset
        if scan.keys:
            _enter(self.keys, scan.keys, base)
        if scan.tags:
            _enter(self.tags, scan.tags, base)
        self.batches.append(data)
        self.youngest.append(self.max_timestamp)
        self.lasts.append(base + header.last_offset_delta)
        self.end = Offset(base + header.last_offset_delta + 1)
        self.size_bytes += len(data)
        weight = weight_of(batch)
        self.weight += weight
        return weight

    def read(self, offset: Offset, max_bytes: int, end: Offset) -> list[bytes]:
        """Batches from the one that holds `offset` on; the first whatever its size."""
        found: list[bytes] = []
        lasts, batches = self.lasts, self.batches
        for number in range(bisect_left(lasts, offset), len(lasts)):
            data = batches[number]
            max_bytes -= len(data)
            if lasts[number] >= end or (found and max_bytes < 0):
                break
            found.append(data)
        return found

    def floor_by_timestamp(self, timestamp: TimestampMs) -> Offset:
        number = bisect_left(self.youngest, timestamp)
        return Offset(self.lasts[number - 1] + 1) if number else self.base

    def items(self) -> Iterator[tuple[BatchHeader, bytes]]:
        for data in self.batches:
            yield read_header(data), data

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

    def cut(self, end: Offset) -> MemorySegment:
        """A copy without anything from `end` on. A batch that reaches past `end` goes as a
        whole."""
        count = bisect_left(self.lasts, end)
        new = MemorySegment(self.base)
        new.written_ms = self.written_ms
        new.batches = self.batches[:count]
        new.lasts = self.lasts[:count]
        new.youngest = self.youngest[:count]
        new.end = _end_after_cut(self, count, end)
        new.keys, new.tags = _below(self.keys, new.end), _below(self.tags, new.end)
        if count:
            new.first_timestamp = self.first_timestamp
            new.max_timestamp = TimestampMs(new.youngest[-1])
        new.size_bytes = sum(map(len, new.batches))
        entries = _count(new.keys) + _count(new.tags)
        new.weight = new.size_bytes + count * BATCH_WEIGHT + entries * ENTRY_WEIGHT
        return new


def weight_of(batch: PlacedBatch) -> int:
    """What a batch adds to the memory in use."""
    entries = (len(batch.scan.keys) + len(batch.scan.tags)) // ENTRY_BYTES
    return batch.header.size_bytes + BATCH_WEIGHT + entries * ENTRY_WEIGHT


def offsets_of(index: Index, hashed: int) -> list[int]:
    found = index.get(hashed)
    if found is None:
        return []
    return found if isinstance(found, list) else [found]


def _end_after_cut(segment: MemorySegment, count: int, end: Offset) -> Offset:
    if count == len(segment.batches):
        return end
    return min(end, read_header(segment.batches[count]).base_offset)


def _enter(index: Index, entries: bytes, base: int) -> None:
    for hashed, delta in ENTRY.iter_unpack(entries):
        known = index.get(hashed)
        if known is None:
            index[hashed] = base + delta
        elif isinstance(known, list):
            known.append(base + delta)
        else:
            index[hashed] = [known, base + delta]


def _below(index: Index, end: int) -> Index:
    kept: Index = {}
    for hashed, known in index.items():
        offsets = known if isinstance(known, list) else [known]
        left = offsets[: bisect_left(offsets, end)]
        if left:
            kept[hashed] = left if len(left) > 1 else left[0]
    return kept


def _count(index: Index) -> int:
    return sum(len(known) if isinstance(known, list) else 1 for known in index.values())
