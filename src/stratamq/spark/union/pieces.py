"""Columns of chunks, made in a task: fetched once, and only the wanted ones stay in memory.

Spark unpickles all functions of a task before it calls the first one. Each says so as it arrives,
and so the first one to be called knows which columns the others will want.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as t

from stratamq.client import TopicPartition
from stratamq.lake.parquet.schema import TYPED_COLUMN
from stratamq.lake.parquet.values import value_columns
from stratamq.spark.columns import SCHEMA, arrow_schema
from stratamq.spark.planning import OffsetRange
from stratamq.spark.reading import Reading, read
from stratamq.spark.union.chunks import Chunks, runs
from stratamq.spark.union.snapshot import Range


def fitted(found: Any, kind: Any, rows: int) -> Any:
    """`found` with the fields of `kind`: nulls where it has not got one."""
    if found is None:
        return pa.nulls(rows, kind)
    if not pa.types.is_struct(kind):
        return found.cast(kind)
    have = {found.type.field(at).name: found.field(at) for at in range(found.type.num_fields)}
    children = [fitted(have.get(field.name), field.type, rows) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=found.is_null())


FETCH_BYTES = 4 << 20
"""Little: memory that is used again is not asked of the system again, and stays in caches."""

Of = Callable[[pa.Array], pa.Array]
Kinds = Mapping[str, Any]
"""Types by names of columns. Fields of the value have `data.` before their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Everything a task needs to know. Picklable."""

    topic: str
    topic_id: bytes
    chunks: Chunks
    reading: Reading
    offset_bytes: float
    value_format: str
    value_schema: str


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column of some pieces, and the type of its values."""

    pieces: Pieces
    name: str
    kind: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.pieces, self.name, self.kind)


def column_of(pieces: Pieces, name: str, kind: Any) -> Of:
    """A function from numbers of chunks to the column's values in each of them."""
    wanted = WantedColumn(pieces, name, kind)

    def of(numbers: pa.Array) -> pa.Array:
        return task_of().lists(wanted, numbers.to_pylist())

    of.__name__ = name  # for who reads a query's plan
    return of


def partition_of(pieces: Pieces) -> Of:
    """The partition of each chunk, for which nothing has to be fetched."""

    def of(numbers: pa.Array) -> pa.Array:
        chunks = pieces.chunks.of(numbers.to_pylist())
        return pa.array([one.partition for one in chunks], pa.int32())

    of.__name__ = "partition"
    return of


class Columns:
    """Columns of some chunks, and where in them each chunk begins."""

    def __init__(self, columns: Mapping[str, pa.Array], starts: Sequence[int]) -> None:
        self._columns, self._starts = columns, pa.array(starts, pa.int32())

    @classmethod
    def read(cls, pieces: Pieces, numbers: Sequence[int], kinds: Kinds) -> Columns:
        made: dict[str, list[pa.Array]] = {name: [] for name in ("offset", *kinds)}
        starts, rows = [0], 0
        parse = _parser(pieces, kinds)
        for run in runs(pieces.chunks.of(numbers)):
            offsets = [pa.array([], pa.int64())]
            for batch in _fetched(pieces, run, kinds):
                offsets.append(batch.column("offset"))
                for name, array in {
                    **{name: batch.column(name) for name in kinds if not _is_typed(name)},
                    **parse(batch),
                }.items():
                    made[name].append(array)
            whole = pa.concat_arrays(offsets)
            starts += [rows + end for end in _ends(whole, run)]
            rows += len(whole)
        columns = {
            name: pa.concat_arrays([pa.array([], kind), *made[name]])
            for name, kind in kinds.items()
        }
        return cls(columns, starts)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def lists(self, name: str) -> pa.Array:
        """One for each chunk."""
        column = self._columns[name]
        return pa.ListArray.from_arrays(self._starts, column, pa.list_(column.type))


# -- what the functions of one task share ----------------------------------------------------------


@dataclass(slots=True)
class PieceTask:
    """What one task has read. Another task reads again: records may have been deleted since."""

    number: int
    wanted: list[WantedColumn] = field(default_factory=list)
    numbers: Sequence[int] = ()
    pieces: Pieces | None = None
    columns: Columns | None = None

    def lists(self, wanted: WantedColumn, numbers: Sequence[int]) -> pa.Array:
        known = self.columns is not None and wanted.name in self.columns
        if not known or self.numbers != numbers or self.pieces != wanted.pieces:
            self.columns = None  # room for the next before they come
            others = [one for one in self.wanted if one.pieces == wanted.pieces]
            kinds = {one.name: one.kind for one in (*others, wanted)}
            self.columns = Columns.read(wanted.pieces, numbers, kinds)
            self.numbers, self.pieces = numbers, wanted.pieces
        assert self.columns is not None
        return self.columns.lists(wanted.name)


_present = PieceTask(-1)


def task_of() -> PieceTask:
    """The one that is being worked on."""
    global _present
    context = TaskContext.get()
    number = -1 if context is None else context.taskAttemptId()
    if number != _present.number:
        _present = PieceTask(number)
    return _present


def _arrived(pieces: Pieces, name: str, kind: Any) -> WantedColumn:
    wanted = WantedColumn(pieces, name, kind)
    task_of().wanted.append(wanted)
    return wanted


# -- one fetch after the other ---------------------------------------------------------------------


def _fetched(pieces: Pieces, run: Sequence[Range], kinds: Kinds) -> Iterator[pa.RecordBatch]:
    tops = {"offset", *("value" if _is_typed(name) else name for name in kinds)}
    schema = arrow_schema(t.StructType([one for one in SCHEMA.fields if one.name in tops]))
    size = min(pieces.reading.fetch_bytes, FETCH_BYTES)
    place = TopicPartition(pieces.topic, run[0].partition)
    start, stop = run[0].start, run[-1].end
    wanted = OffsetRange(
        place=place,
        start=start,
        stop=stop,
        offset_bytes=pieces.offset_bytes,
        topic_id=pieces.topic_id,
    )
    return read(replace(pieces.reading, schema=schema, fetch_bytes=size), wanted)


def _parser(pieces: Pieces, kinds: Kinds) -> Callable[[pa.RecordBatch], dict[str, pa.Array]]:
    typed = {name: kind for name, kind in kinds.items() if _is_typed(name)}
    values = value_columns(pieces.value_format, pieces.value_schema) if typed else None

    def parse(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        found: dict[str, Any] = {}
        if values is not None:
            whole = values.parse(_from_start(batch.column("value"))).column
            fields = zip((one.name for one in whole.type), whole.flatten(), strict=True)
            found = {TYPED_COLUMN: whole, **{f"{TYPED_COLUMN}.{name}": one for name, one in fields}}
        return {name: fitted(found.get(name), typed[name], batch.num_rows) for name in typed}

    return parse


def _is_typed(name: str) -> bool:
    return name.partition(".")[0] == TYPED_COLUMN


def _from_start(array: pa.Array) -> pa.Array:
    """From the beginning of its buffers, as the kernel wants it."""
    return pa.concat_arrays([array, array[:0]]) if array.offset else array


def _ends(offsets: pa.Array, chunks: Sequence[Range]) -> list[int]:
    """Find where each chunk's rows end. Offsets may have gaps; they are in order."""
    if not len(offsets):
        return [0] * len(chunks)
    numbers = memoryview(offsets.buffers()[1]).cast("q")
    return [bisect_left(numbers, one.end, 0, len(offsets)) for one in chunks]
