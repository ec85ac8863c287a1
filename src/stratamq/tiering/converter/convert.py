"""A segment's bytes into the files that go to the object store. Runs in a converter's process.

Bytes go through as they are; only batches with records that must not be in the file are taken
apart, so nothing here loops over records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TypedDict

from stratamq.lake.parquet.reading import ColdFile
from stratamq.lake.parquet.sinks import Footer
from stratamq.lake.parquet.sources import FileSource
from stratamq.lake.parquet.values import value_columns
from stratamq.lake.parquet.writing import FileLayout, FileSummary, FileWriter, read_chunks
from stratamq.meta.tier.files import ParquetEnd
from stratamq.model.errors import CorruptBatch
from stratamq.model.types import NO_TIMESTAMP, Offset, TimestampMs
from stratamq.tiering.converter.files import CALL_BYTES, ShortCallFile, write_sidecars
from stratamq.tiering.converter.requests import Conversion, Converted, FileSums
from stratamq.wire.crc import crc32c
from stratamq.wire.kafka.records import (
    BatchSpan,
    Buffer,
    check_crc,
    drop_records,
    iter_batches,
    read_header,
    walk,
)

CHUNK_BYTES = 4 << 20
EVERYTHING = (1 << 63) - 1

OnProgress = Callable[[int], None]
"""Called with the number of bytes of the log that are done."""


def convert(work: Conversion, on_progress: OnProgress = lambda _: None) -> Converted:
    """Make the files that are asked for. What fails leaves files that are of no use.

    CorruptBatch when the source is damaged, InvalidConfig when the values' schema is.
    """
    with ExitStack() as files:
        parquet = _parquet_writer(files, work) if work.parquet else None
        log = _Log(files.enter_context(ShortCallFile(work.log, "wb"))) if work.log else None
        try:
            done_bytes = 0
            for chunk in _chunks(files, work):
                spans = walk(chunk)
                end = spans[-1].position + spans[-1].size if spans else 0
                if end != len(chunk):
                    raise CorruptBatch(f"{len(chunk) - end} bytes are no batch")
                if log:
                    clean = work.log_is_clean
                    parts = _kept(chunk, spans, work) if clean else [_within(chunk, spans, work)]
                    _add_all(log, parts)
                if parquet:
                    _add_all(parquet, _kept(chunk, spans, work))
                done_bytes += len(chunk)
                on_progress(done_bytes)
            return _answer(work, parquet.close() if parquet else None, log)
        except BaseException:
            if parquet:
                parquet.abandon()
            raise


def _chunks(files: ExitStack, work: Conversion) -> Iterator[memoryview]:
    """The source's batches, a few megabytes at a time."""
    if work.source_end is None:
        yield from read_chunks(files.enter_context(ShortCallFile(work.source)))
        return
    source = FileSource(work.source)
    files.callback(source.close)
    # As they were, codec and all: what is made of them says how they were compressed.
    cold = ColdFile(source, work.source.name, Footer(*work.source_end), recompressed=True)
    offset = int(work.base_offset)
    while data := cold.read(offset, CHUNK_BYTES, EVERYTHING):
        yield memoryview(data)
        offset = walk(data)[-1].last_offset + 1


def _answer(work: Conversion, parquet: FileSummary | None, log: _Log | None) -> Converted:
    sidecars = write_sidecars(work.log, work.base_offset) if work.log and work.log_is_clean else ()
    found = Converted(sums=tuple(file_sums(path) for path in (*work.sums_of, *sidecars)))
    if log:
        found = replace(found, log=FileSums(log.size, log.crc), **log.summary())
    if parquet:
        found = replace(
            found,
            parquet=FileSums(parquet.size_bytes, parquet.crc),
            parquet_end=ParquetEnd(*parquet.footer),
            rows=parquet.rows,
            batches=parquet.batches,
            min_timestamp=TimestampMs(parquet.min_timestamp),
            max_timestamp=TimestampMs(parquet.max_timestamp),
            unparsed=parquet.unparsed,
            misfits=parquet.misfits,
        )
    return found


def file_sums(path: Path) -> FileSums:
    size = crc = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(CALL_BYTES):
            size, crc = size + len(piece), crc32c(piece, crc)
    return FileSums(size, crc)


def _add_all(writer: FileWriter | _Log, parts: Iterable[Buffer]) -> None:
    for part in parts:
        writer.add(part)


# -- what is in the files --------------------------------------------------------------------------


def _within(chunk: memoryview, spans: Sequence[BatchSpan], work: Conversion) -> memoryview:
    """The batches that lie in the range, as they are."""
    inside = [
        span
        for span in spans
        if span.last_offset >= work.base_offset and span.base_offset < work.end_offset
    ]
    return (
        chunk[inside[0].position : inside[-1].position + inside[-1].size] if inside else chunk[:0]
    )


def _kept(chunk: memoryview, spans: Sequence[BatchSpan], work: Conversion) -> Iterator[Buffer]:
    """What may be in a file without what is deleted: untouched batches, and others without some
    records."""
    if _stays(spans[0].base_offset, spans[-1].last_offset, work):
        yield chunk
        return
    first = 0
    for span in spans:
        if _stays(span.base_offset, span.last_offset, work):
            continue
        if first < span.position:
            yield chunk[first : span.position]
        first = span.position + span.size
        left = _without(chunk[span.position : first], work)
        if left:
            yield left
    if first < len(chunk):
        yield chunk[first:]


def _stays(base: Offset, last: Offset, work: Conversion) -> bool:
    """Whether nothing in `base..last` has to go."""
    return _low(work) <= base and last < work.end_offset and not _marks(base, last, work)


def _low(work: Conversion) -> Offset:
    return max(work.base_offset, work.start)


def _marks(base: Offset, last: Offset, work: Conversion) -> Sequence[Offset]:
    return work.deleted[bisect_left(work.deleted, base) : bisect_left(work.deleted, last + 1)]


def _without(batch: memoryview, work: Conversion) -> bytes | None:
    """Remove records from a batch; None where none is left. The mark that ends a transaction has no
    record to remove."""
    header = read_header(batch)
    base, last = header.base_offset, header.last_offset
    low, high = _low(work), work.end_offset
    if last < low or base >= high:
        return None
    if header.is_control or not header.record_count:
        return bytes(batch)
    outside = *range(base, low), *range(high, last + 1)
    return drop_records(header, batch, {*outside, *_marks(base, last, work)})


# -- the files -------------------------------------------------------------------------------------


def _parquet_writer(files: ExitStack, work: Conversion) -> FileWriter:
    assert work.parquet
    layout = FileLayout(
        partition=work.partition,
        aborted=work.aborted,
        values=value_columns(work.value_format, work.value_schema),
        notes=work.notes,
    )
    return FileWriter(files.enter_context(ShortCallFile(work.parquet, "wb")), layout)


class _Log:
    """Batches as they are. Damage is found here too: what goes to the store was looked at."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = self.crc = 0
        self._rows = self._batches = 0
        self._first = self._last = int(NO_TIMESTAMP)

    def add(self, part: Buffer) -> None:
        for header, data in iter_batches(part):
            if not check_crc(data, header):
                raise CorruptBatch(
                    f"the batch at offset {header.base_offset} does not match its CRC"
                )
            self._batches += 1
            self._last = max(self._last, header.max_timestamp)
            if header.record_count and not header.is_control:
                self._rows += header.record_count
                first = min(header.base_timestamp, header.max_timestamp)
                self._first = first if self._first == NO_TIMESTAMP else min(self._first, first)
        self._file.write(part)
        self.size, self.crc = self.size + len(part), crc32c(part, self.crc)

    def summary(self) -> _LogSummary:
        return {
            "rows": self._rows,
            "batches": self._batches,
            "min_timestamp": TimestampMs(self._first),
            "max_timestamp": TimestampMs(self._last),
        }


class _LogSummary(TypedDict):
    rows: int
    batches: int
    min_timestamp: TimestampMs
    max_timestamp: TimestampMs
