"""The batches of a cold file: a block of entries after each row group, found from the footer.

An entry is a batch's own header and three numbers more. The rows of a table cannot say these
things: an empty batch has no row, a mark that ends a transaction must not be one, and repeated in
every row they would be decoded for every row. They are not in the footer itself because every
reader of the table reads that, and a segment of small batches has a million of them.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import cramjam

from stratamq.model.errors import CorruptBatch
from stratamq.model.types import Offset
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records import HEADER_BYTES, BatchHeader, Buffer, read_header
from stratamq.wire.kafka.records.layout import CRC_AT

FORMAT_KEY = "stratamq.format"
FORMAT_VERSION = "1"
BLOCKS_KEY = "stratamq.batches"
VALUES_KEY = "stratamq.values"


MAGIC = b"SMB1"
HEAD = Struct("<4sIIIII")
"""magic, entries, checksums of pieces, unpacked bytes, packed bytes, CRC32C of the packed bytes
(little-endian)."""

ENTRY = Struct(f">{HEADER_BYTES}sBII")
"""header, kind, first row within the row group, position within the stored bytes (big-endian)."""

ZSTD_LEVEL = 3
RAW_BYTES_MAX = 1 << 31


class BatchOrigin(IntEnum):
    """How a batch comes back."""

    ROWS = 0
    """From its rows. The header's CRC is that of the batch with its records unpacked."""

    ROWS_KEPT = 1
    """From its own bytes, stored next to its rows: rows would give the same records in other
    bytes."""

    KEPT = 2
    """From its own bytes. It has no rows: nothing in it is a message."""


class BlockEntry(NamedTuple):
    header: BatchHeader
    kind: BatchOrigin
    first_row: int
    kept: memoryview


class BlockPlace(NamedTuple):
    """Where a block lies in the file, and what it covers. The row group's bytes lie before it, from
    `group_position` on; `row_group` is -1 when it has no rows."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    row_group: int
    group_position: int


class BlockBuilder:
    """Collects the entries of one row group."""

    def __init__(self) -> None:
        self._entries: list[bytes] = []
        self._kept: list[bytes] = []
        self._kept_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        return len(self._entries) * ENTRY.size + self._kept_bytes

    def add(self, head: bytes, kind: BatchOrigin, first_row: int, batch: Buffer) -> None:
        """`head` is the header to come back with; `batch` is stored when its kind says so."""
        self._entries.append(ENTRY.pack(head, kind, first_row, self._kept_bytes))
        if kind is not BatchOrigin.ROWS:
            self._kept.append(bytes(batch))
            self._kept_bytes += len(batch)

    def pack(self, pieces: Sequence[int]) -> bytes:
        """The block. Bytes of the same place in all entries lie together: they are much alike.

        `pieces` are the checksums of the row group's bytes.
        """
        table = b"".join(self._entries)
        planes = [table[at :: ENTRY.size] for at in range(ENTRY.size)]
        crcs = [crc.to_bytes(4, "little") for crc in pieces]
        raw = b"".join((*planes, *crcs, *self._kept))
        packed = bytes(cramjam.zstd.compress(raw, level=ZSTD_LEVEL))
        sizes = len(self._entries), len(pieces), len(raw), len(packed)
        return HEAD.pack(MAGIC, *sizes, crc32c(packed)) + packed


class Block:
    """The entries of one row group, read back; taken apart one by one, as they are asked for."""

    def __init__(self, data: bytes) -> None:
        if len(data) < HEAD.size:
            raise CorruptBatch("a block of batches is cut off")
        magic, count, pieces, raw_bytes, packed_bytes, crc = HEAD.unpack_from(data)
        packed = memoryview(data)[HEAD.size :]
        if magic != MAGIC or len(packed) != packed_bytes or crc32c(packed) != crc:
            raise CorruptBatch("a block of batches does not match its checksum")
        table_bytes = count * ENTRY.size
        kept_at = table_bytes + 4 * pieces
        if not kept_at <= raw_bytes <= RAW_BYTES_MAX:
            raise CorruptBatch("a block of batches is smaller than its entries")
        raw = bytearray(raw_bytes)
        if cramjam.zstd.decompress_into(packed, raw) != raw_bytes:
            raise CorruptBatch("a block of batches is shorter than it says")
        self._count: int = count
        self.table = bytearray(table_bytes)
        """The entries, one after the other."""
        for at in range(ENTRY.size):
            self.table[at :: ENTRY.size] = raw[at * count : (at + 1) * count]
        self.pieces = memoryview(raw)[table_bytes:kept_at].cast("I")
        """The checksums of the row group's bytes. (Every machine we run on is little-endian.)"""
        self._kept = memoryview(raw)[kept_at:]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> BlockEntry:
        head, kind, first_row, at = ENTRY.unpack_from(self.table, index * ENTRY.size)
        header = read_header(head)
        size = header.size_bytes if kind else 0
        return BlockEntry(header, BatchOrigin(kind), first_row, self._kept[at : at + size])

    @property
    def size_bytes(self) -> int:
        """In memory."""
        return len(self.table) + 4 * len(self.pieces) + len(self._kept)

    def find(self, offset: int) -> int:
        """Find the first entry that ends at or after `offset`; their number when there is none."""
        return bisect_left(range(self._count), offset, key=self._last_offset)

    def _last_offset(self, index: int) -> Offset:
        return read_header(self.table, index * ENTRY.size).last_offset


def with_crc(data: Buffer, crc: int) -> bytes:
    """A header with another CRC."""
    return b"".join((data[:CRC_AT], crc.to_bytes(4, "big"), data[CRC_AT + 4 : HEADER_BYTES]))


def places_to_text(places: Sequence[BlockPlace]) -> str:
    return json.dumps(places, separators=(",", ":"))


def places_from_text(text: str | bytes) -> tuple[BlockPlace, ...]:
    try:
        return tuple(BlockPlace(*map(int, place)) for place in json.loads(text))
    except (TypeError, ValueError) as error:
        raise CorruptBatch(f"the footer's list of batches cannot be read: {error}") from error
