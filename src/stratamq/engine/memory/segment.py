"""One segment in memory, with its four indexes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from struct import Struct

from stratamq.log.contract import PlacedBatch, SegmentInfo
from stratamq.model.types import NO_TIMESTAMP, Offset, TimestampMs
from stratamq.wire.kafka.records import ENTRY_BYTES, BatchHeader, BatchScan, read_header

ENTRY = Struct(">QI")
assert ENTRY.size == ENTRY_BYTES, "entries are unpacked as the scanner packs them"

BATCH_WEIGHT = 250
"""What a batch costs beside its bytes: the object around them, its places in the lists."""

ENTRY_WEIGHT = 120
"""What a key or a tag costs in its index, when no other shares its hash."""

ScanBatch = Callable[[BatchHeader, bytes], BatchScan]
"""Keys and tags of a stored batch, as they were indexed."""

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

    def cut(self, end: Offset, scan: ScanBatch) -> MemorySegment:
        """A copy without anything from `end` on. A batch that reaches past `end` goes as a whole.
        What goes is looked into; what stays is copied as it is."""
        count = bisect_left(self.lasts, end)
        new = MemorySegment(self.base)
        new.written_ms = self.written_ms
        new.batches, new.lasts = self.batches[:count], self.lasts[:count]
        new.youngest = self.youngest[:count]
        new.end = _end_after_cut(self, count, end)
        if count:
            new.first_timestamp = self.first_timestamp
            new.max_timestamp = TimestampMs(new.youngest[-1])
        new.keys, new.tags = self.keys.copy(), self.tags.copy()
        new.size_bytes, new.weight = self.size_bytes, self.weight
        for data in self.batches[count:]:
            header = read_header(data)
            batch = PlacedBatch(header, (data,), scan(header, data))
            _remove(new.keys, batch.scan.keys, new.end)
            _remove(new.tags, batch.scan.tags, new.end)
            new.size_bytes -= len(data)
            new.weight -= weight_of(batch)
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


def _remove(index: Index, entries: bytes, end: int) -> None:
    """Take back what a batch at `end` or later has entered. Lists are replaced: readers may be
    looking at them in the segment that this one is a copy of."""
    for hashed, _ in ENTRY.iter_unpack(entries):
        known = index.get(hashed)
        if known is None:
            continue
        offsets = known if isinstance(known, list) else [known]
        left = offsets[: bisect_left(offsets, end)]
        if left:
            index[hashed] = left if len(left) > 1 else left[0]
        else:
            del index[hashed]
