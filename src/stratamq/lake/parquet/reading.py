"""Batches out of a cold file: found from the footer, opened a row group at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stratamq.lake.parquet.arrays import rows_of
from stratamq.lake.parquet.blocks import (
    BLOCKS_KEY,
    FORMAT_KEY,
    FORMAT_VERSION,
    Block,
    BlockEntry,
    BlockPlace,
    places_from_text,
)
from stratamq.lake.parquet.groups import NO_ROWS, VALUE_FACT_BYTES, Packing, RowGroup
from stratamq.lake.parquet.pages import (
    VALUE_COLUMN,
    Buffers,
    ParquetPage,
    ValuePages,
    index_places,
    pages_of,
)
from stratamq.lake.parquet.schema import BATCH_COLUMNS
from stratamq.lake.parquet.sinks import PIECE_BYTES, Footer
from stratamq.lake.parquet.sources import Source, Span, Window
from stratamq.model.errors import CorruptBatch, CorruptRecord, InvalidInput, UnsupportedFormat
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records import DECOMPRESSED_MAX

INDEX_BYTES_MAX = 1 << 20
"""A larger index (very many keys make large filters) is not read for the sake of a few pages."""

TAIL_BYTES = 64 << 10
"""Arrow asks for so much of a file's end, whatever the footer's size."""


class ColdFile:
    """One file of a shard's history. Reads as a ShardStore does, within base..last offset.

    For several threads at once. `read` holds the row group it read last; a caller that wants to
    hold more, or to open them ahead, does so with `group`. `name` is for messages. With
    `recompressed`, batches come back in the codec they were written with, else unpacked. `footer`
    is what
    `write_file` returned. Arrow sees no byte whose checksum was not right.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        footer: Footer,
        *,
        recompressed: bool = False,
        decompressed_max: int = DECOMPRESSED_MAX,
        buffers: Buffers | None = None,
    ) -> None:
        self._source = source
        self.name = name
        self._packing = Packing(recompressed, decompressed_max)
        self._buffers = buffers or Buffers()
        self._footer = footer
        size = self._source.size_bytes
        wanted = min(size, max(footer.size, TAIL_BYTES))
        tail = self._source.read_at(size - wanted, wanted)
        if len(tail) != wanted or crc32c(tail[-footer.size :]) != footer.crc:
            raise self._damage(size - wanted, 0, 0, "its footer does not match its checksum")
        self._tail = size - wanted, tail
        self._metadata = self._open((), None).metadata
        notes = self._metadata.metadata or {}
        version = notes.get(FORMAT_KEY.encode(), b"").decode()
        if version != FORMAT_VERSION:
            raise UnsupportedFormat(f"{self.name}: cold format {version!r} is not known")
        self.places: Sequence[BlockPlace] = places_from_text(notes[BLOCKS_KEY.encode()])
        self._last_offsets = [place.last_offset for place in self.places]
        self._index_places = index_places(self._tail[1][-footer.size :], self._metadata)
        self._group: RowGroup | None = None
        self._index: bytes | None = None

    @property
    def metadata(self) -> Any:
        """The footer, as pyarrow knows it."""
        return self._metadata

    # -- batches -----------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, end: int) -> bytes:
        """Read whole batches from the one that holds `offset` (or the next one).

        Up to `max_bytes`; the first batch comes even if it is larger. Only batches that lie wholly
        below `end`. Empty when there is none. CorruptRecord when the first one is damaged; damage
        further on ends the answer before it.
        """
        parts: list[bytes] = []
        room = max_bytes
        try:
            for number in range(self.number(offset), len(self.places)):
                group = self._group
                if group is None or group.place is not self.places[number]:
                    self._group = None  # one is let go before the next is made
                    group = self._group = self.group(number)
                found = group.read(offset, room, end, first=not parts)
                parts += found.parts
                room -= sum(map(len, found.parts))
                if not found.ended or room <= 0:
                    break
        except CorruptRecord:
            if not parts:
                raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def entries(self, offset: int = 0) -> Iterator[BlockEntry]:
        """The batches' headers from `offset` on, with the bytes of those that have no rows.

        No row is read. It is all that is needed to know producers, transactions and epochs.
        """
        for number in range(self.number(offset), len(self.places)):
            block = self._read_block(number)
            for index in range(block.find(offset), len(block)):
                yield block[index]

    def span(self, number: int) -> Span:
        """Return where a row group and its block lie, to fetch them ahead."""
        place = self.places[number]
        return Span(place.group_position, place.position + place.size - place.group_position)

    def floor_by_timestamp(self, timestamp: int) -> int:
        """An offset where a search begins: every record before it is older than `timestamp`."""
        for number, place in enumerate(self.places):
            if place.max_timestamp < timestamp:
                continue
            block = self._read_block(number)
            for index in range(len(block)):
                header = block[index].header
                if header.max_timestamp >= timestamp:
                    return header.base_offset
            # The place says -1 where all timestamps are below that.
        return self._last_offsets[-1] + 1 if self._last_offsets else 0

    def number(self, offset: int) -> int:
        """Which row group has the batch that holds `offset`, or the next there is; their number
        when there is none."""
        return bisect_left(self._last_offsets, offset)

    def group(self, number: int) -> RowGroup:
        """A row group, opened: its block and all its columns but the values are read."""
        place = self.places[number]
        block = self._read_block(number)
        if place.row_group < 0:
            return RowGroup(self.name, place, block, NO_ROWS, 0, None, self._packing)
        pages = self._pages(place)
        columns = tuple(name for name in BATCH_COLUMNS if name != VALUE_COLUMN or not pages)
        table = self._read_columns(place, block, columns)
        rows = rows_of(table)
        values = ValuePages(self._source, pages, rows, self._buffers) if pages else None
        size = table.nbytes + VALUE_FACT_BYTES * table.num_rows
        return RowGroup(self.name, place, block, rows, size, values, self._packing)

    def _pages(self, place: BlockPlace) -> list[ParquetPage]:
        """Empty where Arrow has to read the values."""
        where = self._index_places[place.row_group]
        if where is None:
            return []
        if self._footer.index_size <= INDEX_BYTES_MAX:
            index = bytes(self.index_bytes(*where))
        else:
            index = self._source.read_at(*where)
        try:
            return pages_of(index, self._metadata.row_group(place.row_group).num_rows)
        except CorruptBatch:
            return []

    # -- the file ----------------------------------------------------------------------------------

    def column_spans(self, place: BlockPlace, columns: Sequence[str]) -> list[Span]:
        """The pieces in which columns of a row group lie; those that touch are one stretch."""
        group = self._metadata.row_group(place.row_group)
        found: list[Span] = []
        for index in range(group.num_columns):
            chunk = group.column(index)
            if chunk.path_in_schema.split(".")[0] not in columns:
                continue
            span = _whole_pieces(place, chunk)
            if found and span.position <= found[-1].position + found[-1].size:
                start = found[-1].position
                found[-1] = Span(start, span.position + span.size - start)
            else:
                found.append(span)
        return found

    def read_columns(self, number: int, columns: Sequence[str]) -> Any:
        """Columns of the row group that belongs to a block, as a table."""
        return self._read_columns(self.places[number], self._read_block(number), columns)

    def _read_columns(self, place: BlockPlace, block: Block, columns: Sequence[str]) -> Any:
        parts = []
        for span in self.column_spans(place, columns):
            data = self._source.read_at(*span)
            first = (span.position - place.group_position) // PIECE_BYTES
            if len(data) != span.size or not _pieces_fit(data, block.pieces[first:]):
                reason = "its columns do not match their checksums"
                raise self._damage(span.position, place.base_offset, place.last_offset, reason)
            parts.append((span.position, data))
        file = self._open(parts, self._metadata)
        return file.read_row_group(place.row_group, columns=list(columns), use_threads=False)

    def index_bytes(self, position: int, size: int) -> memoryview:
        """A part of the index, such as a bloom filter. Empty when the index is damaged: it only
        helps to skip, and is read as a whole, once."""
        start = self._source.size_bytes - self._footer.size - self._footer.index_size
        if self._index is None:
            index = self._source.read_at(start, self._footer.index_size)
            self._index = index if crc32c(index) == self._footer.index_crc else b""
        return memoryview(self._index)[position - start : position - start + size]

    def _read_block(self, number: int) -> Block:
        place, kept = self.places[number], self._group
        if kept is not None and kept.place is place:
            return kept.block
        try:
            return Block(self._source.read_at(place.position, place.size))
        except InvalidInput as error:
            raise self._damage(
                place.position, place.base_offset, place.last_offset, str(error)
            ) from error

    def _open(self, pieces: Sequence[tuple[int, bytes]], metadata: Any) -> Any:
        window = Window(self._source.size_bytes, (*pieces, self._tail))
        file = pa.PythonFile(window, mode="r")
        return pq.ParquetFile(
            file, metadata=metadata, pre_buffer=False
        )  # it is all here: no threads

    def _damage(self, position: int, base: int, last: int, reason: str) -> CorruptRecord:
        return CorruptRecord(self.name, position, base, last + 1, reason)


def _whole_pieces(place: BlockPlace, chunk: Any) -> Span:
    """Return where a column lies, widened to what can be checked."""
    start = chunk.data_page_offset
    if chunk.dictionary_page_offset is not None:
        start = min(start, chunk.dictionary_page_offset)
    first = (start - place.group_position) // PIECE_BYTES
    last = -(-(start + chunk.total_compressed_size - place.group_position) // PIECE_BYTES)
    start = place.group_position + first * PIECE_BYTES
    return Span(start, min(place.group_position + last * PIECE_BYTES, place.position) - start)


def _pieces_fit(data: bytes, crcs: memoryview) -> bool:
    view = memoryview(data)
    starts = range(0, len(data), PIECE_BYTES)
    return len(starts) <= len(crcs) and all(
        crc32c(view[start : start + PIECE_BYTES]) == crc
        for start, crc in zip(starts, crcs, strict=False)
    )
