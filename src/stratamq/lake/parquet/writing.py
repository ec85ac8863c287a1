"""Batches into a Parquet file, in bounded memory: one row group is held, then written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from stratamq.lake.parquet._columns import Columns
from stratamq.lake.parquet.arrays import constant, least_ms, runs, take_arrays
from stratamq.lake.parquet.blocks import (
    BLOCKS_KEY,
    FORMAT_KEY,
    FORMAT_VERSION,
    VALUES_KEY,
    BatchOrigin,
    BlockBuilder,
    BlockPlace,
    places_to_text,
    with_crc,
)
from stratamq.lake.parquet.schema import TYPED_COLUMN, arrow_schema, writer_options
from stratamq.lake.parquet.sinks import Footer, Tally
from stratamq.lake.parquet.values import ValueColumns
from stratamq.model.errors import CorruptBatch
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import NO_TIMESTAMP
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records import (
    DECOMPRESSED_MAX,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    check_crc,
    iter_batches,
)
from stratamq.wire.kafka.records.decode import record_bytes
from stratamq.wire.kafka.records.layout import CHECKED, CODEC_MASK, LENGTH_AT, LENGTH_END

ROW_GROUP_BYTES = 16 << 20
"""Unpacked. Larger ones gain nothing in size, and readers hold a whole one or two."""

ROW_GROUP_BYTES_MAX = 1 << 30
"""pyarrow would split one of more than 64 million rows, and its columns cannot hold 2 GiB."""

ZSTD_LEVEL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """What a file holds in addition to its batches, and how it is cut."""

    partition: int
    row_group_bytes: int = ROW_GROUP_BYTES
    zstd_level: int = ZSTD_LEVEL
    decompressed_max: int = DECOMPRESSED_MAX
    aborted: Sequence[AbortedTxn] = ()
    """Aborted transactions with records in the file, also if they end after it: the shard knows."""
    values: ValueColumns | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    """Further entries for the file's metadata, such as the topic's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSummary:
    """What was written. Offsets are those of batches, rows or none; -1 in an empty file."""

    base_offset: int
    last_offset: int
    min_timestamp: int
    """The smallest date of a row, in ms; -1 without one."""
    max_timestamp: int
    """The largest that any batch has."""
    batches: int
    rows: int
    row_groups: int
    size_bytes: int
    crc: int
    """CRC32C of the whole file."""
    footer: Footer
    unparsed: int
    """Values that are not in the declared format; their `data` is null."""
    misfits: int
    """Values with a field that is not of its declared type; that field is null."""


def write_file(chunks: Iterable[Buffer], sink: BinaryIO, layout: FileLayout) -> FileSummary:
    """Write all batches of `chunks`, each made of whole batches, in order of their offsets.

    CorruptBatch when a batch does not match its CRC or its neighbours, BatchTooLarge when it
    unpacks to too much; the sink then holds nothing of use.
    """
    writer = FileWriter(sink, layout)
    try:
        for chunk in chunks:
            writer.add(chunk)
        return writer.close()
    except BaseException:
        writer.abandon()
        raise


def read_chunks(file: BinaryIO, chunk_bytes: int = 4 << 20) -> Iterator[memoryview]:
    """The bytes of a `.log` file, cut between batches. CorruptBatch when it ends within one."""
    rest = b""
    while data := file.read(chunk_bytes):
        whole = rest + data
        end = 0  # of the last whole batch; bytes that are no batch are left to the caller
        while len(whole) - end >= HEADER_BYTES:
            length = int.from_bytes(whole[end + LENGTH_AT : end + LENGTH_END], "big")
            after = end + length + LENGTH_END
            if after > len(whole):
                break
            end = after
        if end:
            yield memoryview(whole)[:end]
        rest = whole[end:]
    if rest:
        raise CorruptBatch(f"the file ends {len(rest)} bytes into a batch")


class FileWriter:
    """Takes batches, writes row groups. Nothing can be read before `close`."""

    def __init__(self, sink: BinaryIO, layout: FileLayout) -> None:
        assert 0 < layout.row_group_bytes <= ROW_GROUP_BYTES_MAX
        self._layout = layout
        typed = layout.values.arrow_type if layout.values else None
        self._schema = arrow_schema(typed)
        self._tally = Tally(sink)
        self._sink = pa.PythonFile(self._tally, mode="w")
        options = writer_options(self._schema, layout.zstd_level, layout.row_group_bytes)
        self._writer = pq.ParquetWriter(self._sink, self._schema, **options)
        self._columns = Columns()
        self._block = BlockBuilder()
        self._aborted = _ByProducer(layout.aborted)
        self._run_ends: list[int] = []
        self._run_values: list[bool] = []
        self._places: list[BlockPlace] = []
        self._pending = _Extent()
        self._total = _Extent()
        self._last_offset = -1
        self._min_timestamp: int | None = None
        self._batches = self._rows = self._row_groups = self._unparsed = self._misfits = 0

    def add(self, chunk: Buffer) -> None:
        """Add all batches of `chunk`."""
        for header, data in iter_batches(chunk):
            self._add_batch(header, data)
            if self._columns.size_bytes + self._block.size_bytes >= self._layout.row_group_bytes:
                self._flush()

    def close(self) -> FileSummary:
        """Write what is left and the footer. The sink itself stays open."""
        if len(self._block):
            self._flush()
        counts = {"unparsed": self._unparsed, "misfits": self._misfits}
        notes = {FORMAT_KEY: FORMAT_VERSION, BLOCKS_KEY: places_to_text(self._places)}
        if self._layout.values:
            notes[VALUES_KEY] = self._layout.values.describe(counts)
        self._writer.add_key_value_metadata({**self._layout.notes, **notes})
        self._tally.ending()
        self._writer.close()
        return FileSummary(
            base_offset=self._total.base_offset,
            last_offset=self._total.last_offset,
            min_timestamp=-1 if self._min_timestamp is None else self._min_timestamp,
            max_timestamp=self._total.max_timestamp,
            batches=self._batches,
            rows=self._rows,
            row_groups=self._row_groups,
            size_bytes=self._tally.tell(),
            crc=self._tally.crc,
            footer=self._tally.footer(),
            **counts,
        )

    def abandon(self) -> None:
        """Leave the sink as it is. It holds nothing of use."""
        self._tally.abandon()

    def _add_batch(self, header: BatchHeader, data: memoryview) -> None:
        if not check_crc(data, header):
            raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its CRC")
        if header.base_offset <= self._last_offset or header.last_offset_delta < 0:
            raise CorruptBatch(f"the batch at offset {header.base_offset} is out of order")
        first_row = self._columns.rows
        head, kind = bytes(data[:HEADER_BYTES]), BatchOrigin.KEPT
        if header.record_count and not header.is_control:
            head, kind = self._add_rows(header, data)
        elif header.size_bytes == HEADER_BYTES and not header.attributes & CODEC_MASK:
            kind = BatchOrigin.ROWS  # an empty batch: no rows is what it has
        self._block.add(head, kind, first_row, data)
        self._note_run(header)
        self._pending.cover(header)
        self._last_offset = header.last_offset

    def _add_rows(self, header: BatchHeader, data: memoryview) -> tuple[bytes, BatchOrigin]:
        body = record_bytes(header, data, self._layout.decompressed_max)
        same = self._columns.add(
            body.data,
            body.start,
            body.stop,
            header.record_count,
            header.last_offset_delta,
            header.base_offset,
            header.base_timestamp,
            header.max_timestamp if header.uses_log_append_time else None,
        )
        if not same:
            return bytes(data[:HEADER_BYTES]), BatchOrigin.ROWS_KEPT
        head = bytes(data[:HEADER_BYTES])
        if header.attributes & CODEC_MASK:
            checked = CHECKED.pack(header.attributes & ~CODEC_MASK, *header[6:])
            records = memoryview(body.data)[body.start : body.stop]
            head = with_crc(head, crc32c(records, crc32c(checked)))
        return head, BatchOrigin.ROWS

    def _note_run(self, header: BatchHeader) -> None:
        aborted = header.is_transactional and self._aborted.covers(header)
        rows = self._columns.rows
        if not rows or rows == (self._run_ends[-1] if self._run_ends else 0):
            return
        if self._run_values and self._run_values[-1] == aborted:
            self._run_ends[-1] = rows
        else:
            self._run_values.append(aborted)
            self._run_ends.append(rows)

    def _flush(self) -> None:
        """Write the row group, if there are rows, and its block after it."""
        rows, pending = self._columns.rows, self._pending
        start = self._tally.tell()
        self._tally.begin_pieces()
        if rows:
            self._writer.write_table(self._table(), row_group_size=rows)
        position = self._tally.tell()
        block = self._block.pack(self._tally.pieces())
        self._sink.write(block)
        self._places.append(
            BlockPlace(
                position,
                len(block),
                pending.base_offset,
                pending.last_offset,
                pending.max_timestamp,
                self._row_groups if rows else -1,
                start,
            )
        )
        self._batches += len(self._block)
        self._rows += rows
        self._row_groups += bool(rows)
        self._total.extend(pending)
        self._block, self._pending = BlockBuilder(), _Extent()

    def _table(self) -> Any:
        rows = self._columns.rows
        arrays = take_arrays(self._columns)
        found = [self._min_timestamp, least_ms(arrays["timestamp"])]
        self._min_timestamp = min((stamp for stamp in found if stamp is not None), default=None)
        arrays["partition"] = constant(self._layout.partition, "partition", rows)
        arrays["aborted"] = runs(self._run_values, self._run_ends, "aborted")
        self._run_values, self._run_ends = [], []
        if self._layout.values:
            parsed = self._layout.values.parse(arrays["value"])
            arrays[TYPED_COLUMN] = parsed.column
            self._unparsed += parsed.unparsed
            self._misfits += parsed.misfits
        return pa.table([arrays[name] for name in self._schema.names], schema=self._schema)


class _Extent:
    """Which offsets and times some batches cover."""

    def __init__(self) -> None:
        self.base_offset = self.last_offset = -1
        self.max_timestamp = int(NO_TIMESTAMP)

    def cover(self, header: BatchHeader) -> None:
        if self.base_offset < 0:
            self.base_offset = header.base_offset
        self.last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp

    def extend(self, other: _Extent) -> None:
        """Extend this extent by the one that follows it."""
        if self.base_offset < 0:
            self.base_offset = other.base_offset
        self.last_offset = other.last_offset
        self.max_timestamp = max(self.max_timestamp, other.max_timestamp)


class _ByProducer:
    """Aborted transactions, found by producer."""

    def __init__(self, spans: Iterable[AbortedTxn]) -> None:
        self._spans: dict[int, list[AbortedTxn]] = {}
        for span in spans:
            self._spans.setdefault(span.producer_id, []).append(span)

    def covers(self, header: BatchHeader) -> bool:
        return any(
            span.first_offset <= header.base_offset <= span.last_offset
            for span in self._spans.get(header.producer_id, ())
        )
