"""Batches out of a row group: headers from its block, records from its rows."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.lake.parquet._columns import Rows, reach
from stratamq.lake.parquet.blocks import BatchOrigin, Block, BlockEntry, BlockPlace
from stratamq.lake.parquet.pages import ValuePages
from stratamq.model.errors import CorruptBatch, CorruptRecord, InvalidInput
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records import read_header, walk
from stratamq.wire.kafka.records.layout import CHECKED_AT, CODEC_MASK, CRC_AT
from stratamq.wire.kafka.records.rewrite import recompress

NO_ROWS = Rows(0, 0, [None] * 17)
VALUE_FACT_BYTES = 12
"""What the kernel notes of each value."""


class Packing(NamedTuple):
    """How batches come back that were compressed: unpacked, or in the codec they had."""

    recompressed: bool
    decompressed_max: int


class GroupBatches(NamedTuple):
    """Batches in order. `ended`: the group has none after them."""

    parts: list[bytes]
    ended: bool


class RowGroup:
    """A row group, open. Values are unpacked as they are asked for, and stay. For several threads
    at once. `name` is the file's, for messages."""

    def __init__(
        self,
        name: str,
        place: BlockPlace,
        block: Block,
        rows: Rows,
        rows_bytes: int,
        values: ValuePages | None,
        packing: Packing,
    ) -> None:
        self.place, self.block = place, block
        self._name, self._rows, self._values, self._packing = name, rows, values, packing
        self._fixed_bytes = rows_bytes + block.size_bytes
        self.visits = 0
        self.is_ahead = False
        """Notes of the cache that holds it: how many readers are at it, and that what comes next
        was seen to."""

    @property
    def size_bytes(self) -> int:
        """Memory that is held."""
        return self._fixed_bytes + (self._values.size_bytes if self._values else 0)

    def unpack(self) -> None:
        """Unpack all values before they are asked for, except those that another thread is at."""
        if self._values:
            self._values.ensure_all()

    def read(self, offset: int, room: int, end: int, *, first: bool = True) -> GroupBatches:
        """Batches from the one that holds `offset` on, wholly below `end`, up to `room` bytes; with
        `first`, one however large. CorruptRecord when the first one is damaged; damage further on
        ends the answer before it."""
        parts: list[bytes] = []
        index = self.block.find(offset)
        try:
            while index < len(self.block):
                must = first and not parts
                data, count = self._run(index, room, end, must)
                if not count or (len(data) > room and not must):
                    return GroupBatches(parts, False)
                parts.append(data)
                room -= len(data)
                index += count
                if room <= 0:
                    return GroupBatches(parts, index == len(self.block))
        except CorruptRecord:
            if not parts and first:
                raise
            return GroupBatches(parts, False)
        return GroupBatches(parts, True)

    def _run(self, index: int, room: int, end: int, must: bool) -> tuple[bytes, int]:
        """The batches of entries `index`.., as far as they are alike and fit, and how many they
        are. One that is too large may come back, if its size was not known before."""
        entry = self.block[index]
        known = entry.header.size_bytes if not entry.header.attributes & CODEC_MASK else 0
        if entry.header.last_offset >= end or (known > room and not must):
            return b"", 0
        if entry.kind is not BatchOrigin.ROWS:
            return bytes(entry.kept), 1
        repacked = self._packing.recompressed and bool(entry.header.attributes & CODEC_MASK)
        stop, first_row, stop_row = reach(
            self.block.table, index, 0 if self._packing.recompressed else room, end
        )
        data, count = self._made(entry, index, (stop, first_row, stop_row), room)
        if repacked:
            codec = entry.header.compression
            data = recompress(read_header(data), data, codec, self._packing.decompressed_max)
        return data, count

    def _made(
        self, entry: BlockEntry, index: int, run: tuple[int, int, int], room: int
    ) -> tuple[bytes, int]:
        """Make batches. Of a run that is damaged further on only the first one is made: the rest is
        looked at when it is asked for."""
        try:
            try:
                return self._make(index, *run, room)
            except CorruptBatch:
                if run[0] == index + 1:
                    raise
                rows = entry.first_row, entry.first_row + entry.header.record_count
                return self._make(index, index + 1, *rows, room)
        except InvalidInput as error:
            header = entry.header
            raise CorruptRecord(
                self._name, self.place.position, header.base_offset, header.next_offset, str(error)
            ) from error

    def _make(
        self, index: int, stop: int, first_row: int, stop_row: int, room: int
    ) -> tuple[bytes, int]:
        if self._values:
            self._values.ensure(first_row, stop_row)
        data, count = self._rows.batches(self.block.table, index, stop, room)
        return _intact(data, count)


def _intact(data: bytes, count: int) -> tuple[bytes, int]:
    """Return the batches before the first that does not match its noted checksum. CorruptBatch when
    it is the very first."""
    view, done = memoryview(data), 0
    for position, size, *_ in walk(data):
        crc = int.from_bytes(view[position + CRC_AT : position + CHECKED_AT], "big")
        if crc32c(view[position + CHECKED_AT : position + size]) != crc:
            if not done:
                raise CorruptBatch("the rows do not match the checksum of their batch")
            return data[:position], done
        done += 1
    if done != count:
        raise CorruptBatch("the rows do not make the batches that were noted")
    return data, count
