"""The side of a union read that comes from the nodes, with values parsed by the same rules.

    numbers of chunks  ->  a list for each column and chunk  ->  a row for each element

A column is a function of the numbers, and Spark leaves out those that a query does not use.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type

from stratamq.spark.columns import SCHEMA, arrow_schema
from stratamq.spark.options import ReadOptions, read_options
from stratamq.spark.reading import reading_of
from stratamq.spark.union.chunks import Chunks
from stratamq.spark.union.columns import MESSAGE_COLUMNS, Typed, between, quoted, typed_columns
from stratamq.spark.union.pieces import Of, Pieces, column_of, partition_of
from stratamq.spark.union.snapshot import Snapshot

FETCHED = tuple(name for name in MESSAGE_COLUMNS if name not in ("topic", "partition"))
"""What comes with the messages; the others are known before."""

_AT = "_at"


def hot_side(
    spark: SparkSession, cut: Snapshot, options: Mapping[str, str], typed: Typed
) -> DataFrame | None:
    """Read the part that the nodes have; None where there is none. `options` are those of the
    source."""
    if not cut.ranges:
        return None
    lower = {name.lower(): value for name, value in {**options, "topic": cut.topic}.items()}
    given = read_options(lower, streaming=False)  # in lower case, as Spark hands them to a source
    pieces = pieces_of(cut, given)
    tasks = pieces.chunks.tasks(cut.offset_bytes, given.partitions_min)
    numbers = spark.range(0, pieces.chunks.count, 1, tasks)
    lists = numbers.select(*_lists(pieces, cut, typed))
    rows = lists.selectExpr("*", f"posexplode(offset_) AS ({_AT}, offset)")
    known = {"topic": f"'{cut.topic}'", "partition": "partition_", "offset": "offset"}
    names = [*MESSAGE_COLUMNS, *(one.name for one in typed_columns(cut.columns, typed))]
    made = {name: f"get({quoted(f'{name}_')}, {_AT})" for name in names}
    return between(
        rows.selectExpr(*[f"{known.get(name, made[name])} AS {quoted(name)}" for name in names]),
        cut.since_ms,
        cut.as_of_ms,
    )


def pieces_of(cut: Snapshot, options: ReadOptions) -> Pieces:
    return Pieces(
        topic=cut.topic,
        topic_id=cut.topic_id,
        chunks=Chunks(cut.ranges),
        reading=reading_of(options, arrow_schema(SCHEMA)),
        offset_bytes=cut.offset_bytes,
        value_format=cut.value_format,
        value_schema=cut.value_schema,
    )


def _lists(pieces: Pieces, cut: Snapshot, typed: Typed) -> list[Column]:
    """Make the columns of each chunk. Names end in `_`, so that those of rows are free."""
    kinds: dict[str, tuple[str, t.DataType]] = {
        **{name: (name, SCHEMA[name].dataType) for name in FETCHED},
        **{one.name: (one.path, one.kind) for one in typed_columns(cut.columns, typed)},
    }
    made = [_function(partition_of(pieces), t.IntegerType()).alias("partition_")]
    for name, (path, kind) in kinds.items():
        of = column_of(pieces, path, to_arrow_type(kind, timezone="UTC"))
        made.append(_function(of, t.ArrayType(kind)).alias(f"{name}_"))
    return made


def _function(of: Of, kind: t.DataType) -> Column:
    """Make a column of a function. It is declared nondeterministic, which keeps Spark from calling
    it twice: it would call it once before, to see whether there is any row at all."""
    made = arrow_udf(of, kind)  # type: ignore[call-overload]  # its stubs know no type hints
    column: Column = made.asNondeterministic()("id")
    return column
