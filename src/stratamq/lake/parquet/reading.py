"""Batches out of a cold file: found from the footer, unpacked a row group at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c

from stratamq.lake.parquet._columns import Rows
from stratamq.lake.parquet.arrays import rows_of
from stratamq.lake.parquet.blocks import (
    Block,
    BlockPlace,
    Entry,
    Kind,
    places_from_text,
)
from stratamq.lake.parquet.names import BLOCKS_KEY, FORMAT_KEY, FORMAT_VERSION
from stratamq.lake.parquet.schema import BATCH_COLUMNS
from stratamq.lake.parquet.sinks import PIECE_BYTES, Footer
from stratamq.lake.parquet.sources import Source, Span, Window
from stratamq.model.errors import CorruptBatch, CorruptRecord, InvalidInput, UnsupportedFormat
from stratamq.wire.kafka.records import DECOMPRESSED_MAX, HEADER_BYTES, BatchHeader, read_header
from stratamq.wire.kafka.records.layout import CHECKED, CHECKED_AT, CODEC_MASK, LENGTH_END, PLACE
from stratamq.wire.kafka.records.recompress import recompress

TAIL_BYTES = 64 << 10
"""Arrow asks for so much of a file's end, whatever the footer's size."""


class _Group(NamedTuple):
    place: BlockPlace
    block: Block
    rows: Rows | None


class ColdFile:
    """One file of a shard's history. Reads as a ShardStore does, within base..last offset.

    Keeps the row group it read last, so that a reader who goes on pays for each once. Not for
    several threads at once. `name` is for messages. With `recompressed`, batches come back in the
    codec they were written with, else unpacked. `footer` is what `write_file` told of it. Arrow is
    shown no byte whose checksum was not right.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        footer: Footer,
        *,
        recompressed: bool = False,
        decompressed_max: int = DECOMPRESSED_MAX,
    ) -> None:
        self._source = source
        self._name = name
        self._recompressed = recompressed
        self._decompressed_max = decompressed_max
        self._footer = footer
        self._tail = self._read_tail(footer)
        self._metadata = self._open((), None).metadata
        self.places: Sequence[BlockPlace] = self._read_places()
        self._last_offsets = [place.last_offset for place in self.places]
        self._group: _Group | None = None
        self._ahead: tuple[int, bytes] | None = None
        self._index: bytes | None = None

    @property
    def metadata(self) -> Any:
        """The footer, as pyarrow knows it."""
        return self._metadata

    # -- batches -----------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, end: int) -> bytes:
        """Whole batches from the one that holds `offset` (or the next there is).

        Up to `max_bytes`; the first batch comes even if it is larger. Only batches that lie wholly
        below `end`. Empty when there is none. CorruptRecord when the first one is damaged; damage
        further on ends the answer before it.
        """
        parts: list[bytes] = []
        room = max_bytes
        try:
            for header, data in self._batches(offset):
                if header.last_offset >= end or (parts and len(data) > room):
                    break
                parts.append(data)
                room -= len(data)
                if room <= 0:
                    break
        except CorruptRecord:
            if not parts:
                raise
        return b"".join(parts)

    def entries(self, offset: int = 0) -> Iterator[Entry]:
        """The batches' headers from `offset` on, with the bytes of those that have no rows.

        No row is read. It is all that is needed to know producers, transactions and epochs.
        """
        for number in range(self._number(offset), len(self.places)):
            block = self._read_block(number)
            for index in range(block.find(offset), len(block)):
                yield block[index]

    def spans(self, offset: int) -> tuple[Span, ...]:
        """What a read at `offset` will ask the source for: something to fetch ahead."""
        number = self._number(offset)
        if number == len(self.places):
            return ()
        place = self.places[number]
        block = Span(place.position, place.size)
        return (block,) if place.row_group < 0 else (block, self.column_span(place))

    def floor_by_timestamp(self, timestamp: int) -> int:
        """An offset where a search begins: every record before it is older than `timestamp`."""
        for number, place in enumerate(self.places):
            if place.max_timestamp >= timestamp:
                block = self._read_block(number)
                headers = (block[index].header for index in range(len(block)))
                return next(h.base_offset for h in headers if h.max_timestamp >= timestamp)
        return self._last_offsets[-1] + 1 if self._last_offsets else 0

    def _batches(self, offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        for number in range(self._number(offset), len(self.places)):
            group = self._read_group(number)
            for index in range(group.block.find(offset), len(group.block)):
                entry = group.block[index]
                yield entry.header, self._batch(group, entry, index)

    def _batch(self, group: _Group, entry: Entry, index: int) -> bytes:
        """The batch, once. It may not have fitted an answer: the next begins with it."""
        base = entry.header.base_offset
        if self._ahead is None or self._ahead[0] != base:
            try:
                self._ahead = base, self._make(group, entry, group.block.head(index))
            except InvalidInput as error:
                last = entry.header.last_offset
                raise self._damage(group.place.position, base, last, str(error)) from error
        return self._ahead[1]

    def _make(self, group: _Group, entry: Entry, head: bytes) -> bytes:
        """As it was, or with its records unpacked. Either way its CRC is the one noted for it."""
        if entry.kind is not Kind.ROWS:
            return bytes(entry.kept)
        header, batch = entry.header, head
        packed = header.attributes & CODEC_MASK
        if packed:
            checked = CHECKED.pack(header.attributes & ~CODEC_MASK, *header[6:])
            batch = head[:CHECKED_AT] + checked
        if header.record_count:
            if group.rows is None:
                raise CorruptBatch("a batch with records in a block without rows")
            bases = header.base_offset, header.base_timestamp
            batch = group.rows.records(entry.first_row, header.record_count, *bases, batch)
        if crc32c(memoryview(batch)[CHECKED_AT:]) != header.crc:
            raise CorruptBatch("the rows do not match the checksum of their batch")
        return self._unpacked(batch, header) if packed else batch

    def _unpacked(self, batch: bytes, header: BatchHeader) -> bytes:
        """With its own length; and packed again, if that is wanted."""
        place = PLACE.pack(header.base_offset, len(batch) - LENGTH_END, header.leader_epoch)
        batch = place + batch[len(place) :]
        if not self._recompressed:
            return batch
        return recompress(read_header(batch), batch, header.compression, self._decompressed_max)

    # -- the file ----------------------------------------------------------------------------------

    def column_span(self, place: BlockPlace, columns: Sequence[str] = BATCH_COLUMNS) -> Span:
        """The pieces in which columns of a row group lie: one stretch, whatever lies between."""
        group = self._metadata.row_group(place.row_group)
        chunks = [group.column(index) for index in range(group.num_columns)]
        wanted = [c for c in chunks if c.path_in_schema.split(".")[0] in columns]
        starts = [
            c.data_page_offset
            if c.dictionary_page_offset is None
            else min(c.dictionary_page_offset, c.data_page_offset)
            for c in wanted
        ]
        ends = [s + c.total_compressed_size for s, c in zip(starts, wanted, strict=True)]
        first = (min(starts) - place.group_position) // PIECE_BYTES
        last = -(-(max(ends) - place.group_position) // PIECE_BYTES)
        start = place.group_position + first * PIECE_BYTES
        return Span(start, min(place.group_position + last * PIECE_BYTES, place.position) - start)

    def read_columns(self, number: int, columns: Sequence[str]) -> Any:
        """Columns of the row group that belongs to a block, as a table."""
        return self._read_columns(self.places[number], self._read_block(number), columns)

    def _read_columns(self, place: BlockPlace, block: Block, columns: Sequence[str]) -> Any:
        span = self.column_span(place, columns)
        data = self._source.read_at(*span)
        first = (span.position - place.group_position) // PIECE_BYTES
        if len(data) != span.size or not _pieces_fit(data, block.pieces[first:]):
            reason = "its columns do not match their checksums"
            raise self._damage(span.position, place.base_offset, place.last_offset, reason)
        file = self._open(((span.position, data),), self._metadata)
        return file.read_row_group(place.row_group, columns=list(columns), use_threads=False)

    def index_bytes(self, position: int, size: int) -> memoryview:
        """A part of the index, such as a bloom filter. Empty when the index is damaged: it only
        helps to skip, and is read as a whole, once."""
        start = self._source.size_bytes - self._footer.size - self._footer.index_size
        if self._index is None:
            index = self._source.read_at(start, self._footer.index_size)
            self._index = index if crc32c(index) == self._footer.index_crc else b""
        return memoryview(self._index)[position - start : position - start + size]

    def _read_group(self, number: int) -> _Group:
        place = self.places[number]
        if self._group is None or self._group.place is not place:
            self._group = None  # one is let go before the next is made
            block = self._read_block(number)
            rows = None
            if place.row_group >= 0:
                rows = rows_of(self._read_columns(place, block, BATCH_COLUMNS))
            self._group = _Group(place, block, rows)
        return self._group

    def _read_block(self, number: int) -> Block:
        place = self.places[number]
        if self._group is not None and self._group.place is place:
            return self._group.block
        try:
            return Block(self._source.read_at(place.position, place.size))
        except InvalidInput as error:
            raise self._damage(
                place.position, place.base_offset, place.last_offset, str(error)
            ) from error

    def _number(self, offset: int) -> int:
        return bisect_left(self._last_offsets, offset)

    def _read_tail(self, footer: Footer) -> tuple[int, bytes]:
        size = self._source.size_bytes
        wanted = min(size, max(footer.size, TAIL_BYTES))
        tail = self._source.read_at(size - wanted, wanted)
        if len(tail) != wanted or crc32c(tail[-footer.size :]) != footer.crc:
            raise self._damage(size - wanted, 0, 0, "its footer does not match its checksum")
        return size - wanted, tail

    def _open(self, pieces: Sequence[tuple[int, bytes]], metadata: Any) -> Any:
        window = Window(self._source.size_bytes, (*pieces, self._tail))
        file = pa.PythonFile(window, mode="r")
        return pq.ParquetFile(
            file, metadata=metadata, pre_buffer=False
        )  # it is all here: no threads

    def _read_places(self) -> tuple[BlockPlace, ...]:
        notes = self._metadata.metadata or {}
        version = notes.get(FORMAT_KEY.encode(), b"").decode()
        if version != FORMAT_VERSION:
            raise UnsupportedFormat(f"{self._name}: cold format {version!r} is not known")
        return places_from_text(notes[BLOCKS_KEY.encode()])

    def _damage(self, position: int, base: int, last: int, reason: str) -> CorruptRecord:
        return CorruptRecord(self._name, position, base, last + 1, reason)


def _pieces_fit(data: bytes, crcs: memoryview) -> bool:
    view = memoryview(data)
    starts = range(0, len(data), PIECE_BYTES)
    return len(starts) <= len(crcs) and all(
        crc32c(view[start : start + PIECE_BYTES]) == crc
        for start, crc in zip(starts, crcs, strict=False)
    )


assert CHECKED_AT + CHECKED.size == HEADER_BYTES, "the head is written in two parts"
