"""Columns of chunks, made in a task: fetched and decoded once, whichever columns are asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from stratamq.client import TopicPartition
from stratamq.lake.parquet.schema import TYPED_COLUMN
from stratamq.lake.parquet.values import value_columns
from stratamq.spark.planning import OffsetRange
from stratamq.spark.reading import Reading, read
from stratamq.spark.union.chunks import Chunks, runs
from stratamq.spark.union.snapshot import Range
from stratamq.spark.union.typed import fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Everything a task needs to know. Picklable."""

    topic: str
    chunks: Chunks
    reading: Reading
    offset_bytes: float
    value_format: str
    value_schema: str


Of = Callable[[pa.Array], pa.Array]


def column_of(pieces: Pieces, name: str, kind: Any) -> Of:
    """A function from numbers of chunks to the column's values in each of them, of type `kind`.

    Fields of the value have `data.` before their names.
    """

    def of(numbers: pa.Array) -> pa.Array:
        return _decoded(pieces, numbers.to_pylist()).lists(name, kind)

    of.__name__ = name  # for who reads a query's plan
    return of


def partition_of(pieces: Pieces) -> Of:
    """The partition of each chunk, for which nothing has to be fetched."""

    def of(numbers: pa.Array) -> pa.Array:
        chunks = pieces.chunks.of(numbers.to_pylist())
        return pa.array([one.partition for one in chunks], pa.int32())

    of.__name__ = "partition"
    return of


class Decoded:
    """The rows of some chunks, in order, and where in them each chunk begins."""

    def __init__(self, rows: pa.Table, starts: Sequence[int], values: tuple[str, str]) -> None:
        self._rows, self._values = rows, values
        self._starts = pa.array(starts, pa.int32())

    @classmethod
    def read(cls, pieces: Pieces, numbers: Sequence[int]) -> Decoded:
        tables, starts, rows = [], [0], 0
        for run in runs(pieces.chunks.of(numbers)):
            table = pa.Table.from_batches(_fetched(pieces, run), pieces.reading.schema)
            starts += [rows + end for end in _ends(_whole(table.column("offset")), run)]
            rows += table.num_rows
            tables.append(table)
        return cls(pa.concat_tables(tables), starts, (pieces.value_format, pieces.value_schema))

    def lists(self, name: str, kind: Any) -> pa.Array:
        """The column, with one list for each chunk."""
        return pa.ListArray.from_arrays(self._starts, self._column(name, kind), pa.list_(kind))

    def _column(self, name: str, kind: Any) -> pa.Array:
        top, _, field = name.partition(".")
        if top != TYPED_COLUMN:
            return _whole(self._rows.column(name))
        found = self._fields.get(field) if field else self._parsed
        return fitted(found, kind, self._rows.num_rows)

    @cached_property
    def _parsed(self) -> Any:
        columns = value_columns(*self._values)
        return columns.parse(_whole(self._rows.column("value"))).column if columns else None

    @cached_property
    def _fields(self) -> dict[str, Any]:
        """Null where the whole value is."""
        if self._parsed is None:
            return {}
        names = [field.name for field in self._parsed.type]
        return dict(zip(names, self._parsed.flatten(), strict=True))


class _Last(NamedTuple):
    """What the functions of one task share. Not those of another: what they read may be deleted
    since."""

    task: tuple[int, int, int]
    pieces: Pieces
    decoded: Decoded


_last: _Last | None = None


def _decoded(pieces: Pieces, numbers: Sequence[int]) -> Decoded:
    global _last
    context = TaskContext.get()
    assert context is not None, "columns are made in tasks"
    task = (context.taskAttemptId(), numbers[0], numbers[-1])
    if _last is None or _last.task != task or _last.pieces != pieces:
        _last = None  # room for the next before it comes
        _last = _Last(task, pieces, Decoded.read(pieces, numbers))
    return _last.decoded


def _fetched(pieces: Pieces, run: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    place = TopicPartition(pieces.topic, run[0].partition)
    start, stop = run[0].start, run[-1].end
    wanted = OffsetRange(place=place, start=start, stop=stop, offset_bytes=pieces.offset_bytes)
    return read(pieces.reading, wanted)


def _ends(offsets: pa.Array, chunks: Sequence[Range]) -> list[int]:
    """Behind the last row of each chunk. Offsets may have gaps; they are in order."""
    if not len(offsets):
        return [0] * len(chunks)
    numbers = memoryview(offsets.buffers()[1]).cast("q")
    return [bisect_left(numbers, one.end, 0, len(offsets)) for one in chunks]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """One array, from the beginning of its buffers, as kernels want it."""
    parts = column.chunks
    if len(parts) == 1 and not parts[0].offset:
        return parts[0]
    return pa.concat_arrays([*parts, pa.array([], column.type)])
