"""The values of a row group, unpacked a page at a time.

Arrow reads whole columns of a row group. That is fine for all of them but the values, which are
nearly all of a file: a reader of one batch would wait for a whole row group to be unpacked, and one
that reads on would pay for new memory each time. So values are read here, page by page, by the
offset index that every writer of ours leaves; where there is none, or they are written in another
way, Arrow reads them after all.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import cramjam

from stratamq.lake.parquet._columns import Rows, read_thrift
from stratamq.lake.parquet.sources import Source
from stratamq.model.errors import CorruptBatch

STEP_BYTES = 256 << 10
"""Sizes are rounded up to this, so that few are different."""

SPARE_BYTES_MAX = 64 << 20


class Buffers:
    """Spare buffers for unpacked pages, for any thread: new memory has to be found and cleared
    first. A buffer that is given back must not be used any more."""

    def __init__(self, spare_bytes_max: int = SPARE_BYTES_MAX) -> None:
        self._spare_bytes_max = spare_bytes_max
        self._lock = threading.Lock()
        self._spare: dict[int, list[bytearray]] = {}
        self._spare_bytes = 0

    def take(self, size: int) -> bytearray:
        """One of at least so many bytes, with anything in them; of at most twice as many, if it is
        spare."""
        rounded = -(-size // STEP_BYTES) * STEP_BYTES
        with self._lock:
            for length in sorted(self._spare):
                if rounded <= length <= 2 * rounded and self._spare[length]:
                    self._spare_bytes -= length
                    return self._spare[length].pop()
        return bytearray(rounded)

    def give(self, buffers: list[bytearray]) -> None:
        with self._lock:
            for buffer in buffers:
                if self._spare_bytes + len(buffer) <= self._spare_bytes_max:
                    self._spare.setdefault(len(buffer), []).append(buffer)
                    self._spare_bytes += len(buffer)


VALUE_COLUMN = "value"
ENCODINGS = {"RLE", "DELTA_LENGTH_BYTE_ARRAY"}
DATA_PAGE, DELTA_LENGTH, RLE = 0, 6, 3
PAGE_BYTES_MAX = (1 << 31) - 1
RUN_BYTES = 2 << 20
"""Packed pages are read together up to so many bytes."""


class ParquetPage(NamedTuple):
    """Where a page lies, header and all, and which rows of the row group it has."""

    position: int
    size: int
    first_row: int
    stop_row: int


class IndexPlace(NamedTuple):
    """Find where in the file the offset index of a column lies."""

    position: int
    size: int


def index_places(footer: bytes, metadata: Any) -> list[IndexPlace | None]:
    """By row group: where the pages of the values are listed; None if they are not as we write
    them. pyarrow does not say where, so the footer is read once more."""
    groups = read_thrift(footer)[0][_FILE_GROUPS]
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    if VALUE_COLUMN not in paths:
        return [None] * len(groups)
    at = paths.index(VALUE_COLUMN)
    found: list[IndexPlace | None] = []
    for number, group in enumerate(groups):
        chunk = group[_GROUP_COLUMNS][at]
        ours = _is_ours(metadata.row_group(number).column(at)) and chunk.get(_CHUNK_INDEX_SIZE)
        found.append(IndexPlace(chunk[_CHUNK_INDEX], chunk[_CHUNK_INDEX_SIZE]) if ours else None)
    return found


_FILE_GROUPS, _GROUP_COLUMNS, _CHUNK_INDEX, _CHUNK_INDEX_SIZE = 4, 1, 4, 5
"""Fields of parquet.thrift: FileMetaData.row_groups, RowGroup.columns, ColumnChunk's
offset_index_offset and offset_index_length."""


def _is_ours(chunk: Any) -> bool:
    plain = chunk.compression == "ZSTD" and chunk.dictionary_page_offset is None
    return bool(plain and set(chunk.encodings) == ENCODINGS)


def pages_of(index: bytes, rows: int) -> list[ParquetPage]:
    """An offset index: OffsetIndex.page_locations of (offset, compressed_page_size,
    first_row_index)."""
    try:
        located = [(page[1], page[2], page[3]) for page in read_thrift(index)[0][1]]
    except (KeyError, TypeError):
        raise CorruptBatch("the index of the values cannot be read") from None
    firsts = [first for _, _, first in located]
    stops = [*firsts[1:], rows]
    if firsts[:1] != [0] or any(a >= b for a, b in zip(firsts, stops, strict=True)):
        raise CorruptBatch("the pages of the values are not in order")
    return [ParquetPage(*page, stop) for page, stop in zip(located, stops, strict=True)]


class ValuePages:
    """Gives rows their values. For several threads at once: no page is unpacked twice.

    Nothing but the batches' own checksums is compared: a wrong byte in a page makes a wrong batch,
    or none at all, and the loops that read pages trust nothing.
    """

    def __init__(
        self, source: Source, pages: Sequence[ParquetPage], rows: Rows, buffers: Buffers
    ) -> None:
        self._source, self._pages, self._rows, self._buffers = source, pages, rows, buffers
        self._firsts = [page.first_row for page in pages]
        self._ready = [False] * len(pages)
        self._busy: set[int] = set()
        self._changed = threading.Condition()
        self._held: list[bytearray] = []
        rows.await_values()

    def __del__(self) -> None:
        self._buffers.give(self._held)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self._held))

    def ensure(self, first_row: int, stop_row: int) -> None:
        """Rows first..stop-1 have their values. CorruptBatch when a page cannot be read."""
        if first_row >= stop_row:
            return
        first = max(bisect_right(self._firsts, first_row) - 1, 0)
        wanted = range(first, bisect_right(self._firsts, stop_row - 1))
        while missing := [number for number in wanted if not self._ready[number]]:
            if not self._unpack_free(missing):
                # Wait until one of the pages is ready, or the thread at work on them has given up.
                with self._changed:
                    if self._busy.issuperset(missing) and not any(self._ready[n] for n in missing):
                        self._changed.wait()

    def ensure_all(self) -> None:
        """Unpack pages until all rows have their values, or will have as soon as others are done:
        two who work ahead do not wait for each other."""
        self._unpack_free(range(len(self._pages)))

    def _unpack_free(self, wanted: Iterable[int]) -> bool:
        """Unpack those of the pages that no other thread is at. False if there were none."""
        with self._changed:
            mine = [n for n in wanted if not self._ready[n] and n not in self._busy]
            self._busy.update(mine)
        try:
            for run in self._runs(mine):
                self._unpack(run)
        finally:
            with self._changed:
                self._busy.difference_update(mine)
                self._changed.notify_all()
        return bool(mine)

    def _runs(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Pages that lie together, in order."""
        run: list[int] = []
        for number in numbers:
            page = self._pages[number]
            if run and (
                number != run[-1] + 1
                or page.position + page.size - self._pages[run[0]].position > RUN_BYTES
            ):
                yield run
                run = []
            run.append(number)
        if run:
            yield run

    def _unpack(self, run: list[int]) -> None:
        start = self._pages[run[0]].position
        stop = self._pages[run[-1]].position + self._pages[run[-1]].size
        packed = self._buffers.take(stop - start)
        data = memoryview(packed)[: stop - start]
        self._source.read_into(start, data)
        for number in run:
            page = self._pages[number]
            self._add(page, data[page.position - start : page.position - start + page.size])
            with self._changed:
                self._ready[number] = True
                self._changed.notify_all()
        self._buffers.give([packed])

    def _add(self, page: ParquetPage, packed: memoryview) -> None:
        size, at = _page_size(page, packed)
        buffer = self._buffers.take(size)
        view = memoryview(buffer)[:size]
        try:
            unpacked = cramjam.zstd.decompress_into(packed[at:], view)
        except cramjam.DecompressionError as error:
            raise CorruptBatch(f"a page of values cannot be unpacked: {error}") from None
        if unpacked != size:
            raise CorruptBatch("a page of values is shorter than it says")
        self._rows.add_values(view, page.first_row, page.stop_row - page.first_row)
        self._held.append(buffer)


def _page_size(page: ParquetPage, packed: memoryview) -> tuple[int, int]:
    """How large it is unpacked, and where its packed bytes begin. PageHeader: type,
    uncompressed_page_size, compressed_page_size, data_page_header (num_values, encoding,
    definition_level_encoding)."""
    head, at = read_thrift(packed)
    data = head.get(5, {})
    facts = (head.get(1), data.get(1), data.get(2), data.get(3), head.get(3))
    rows = page.stop_row - page.first_row
    if facts != (DATA_PAGE, rows, DELTA_LENGTH, RLE, len(packed) - at):
        raise CorruptBatch("a page of values is not what its index says")
    size = head.get(2)
    if not isinstance(size, int) or not 0 <= size <= PAGE_BYTES_MAX:
        raise CorruptBatch("a page of values has no size")
    return size, at
