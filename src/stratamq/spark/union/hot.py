"""The side of a union read that comes from the nodes, with values parsed by the same rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from stratamq.lake.parquet.schema import TYPED_COLUMN
from stratamq.lake.parquet.values import value_columns
from stratamq.spark.columns import SCHEMA
from stratamq.spark.names import FORMAT
from stratamq.spark.union.columns import MESSAGE_COLUMNS, struct_of, until
from stratamq.spark.union.snapshot import Range, Snapshot, rounds


def hot_side(
    spark: SparkSession, cut: Snapshot, options: Mapping[str, str], *, typed: bool
) -> DataFrame | None:
    """None where there is nothing. `options` are those of the source."""
    if not cut.ranges:
        return None
    reads = [_read(spark, cut, taken, options) for taken in rounds(cut)]
    rows = until(reduce(DataFrame.unionByName, reads), cut.as_of_ms)
    return _with_values(rows, cut) if typed and cut.columns else rows


def _read(
    spark: SparkSession, cut: Snapshot, taken: Sequence[Range], options: Mapping[str, str]
) -> DataFrame:
    """Partitions that were added since are not in the cut."""
    places = {
        "topic": cut.topic,
        "startingOffsets": json.dumps({cut.topic: {one.partition: one.start for one in taken}}),
        "endingOffsets": json.dumps({cut.topic: {one.partition: one.end for one in taken}}),
    }
    schema = t.StructType([SCHEMA[name] for name in MESSAGE_COLUMNS])
    rows = spark.read.format(FORMAT).schema(schema).options(**{**options, **places}).load()
    return rows.where(f.col("partition") < len(cut.ends))


def _with_values(rows: DataFrame, cut: Snapshot) -> DataFrame:
    data = struct_of(cut.columns)
    schema = t.StructType([*rows.schema.fields, t.StructField(TYPED_COLUMN, data)])
    return rows.mapInArrow(_parser(cut.value_format, cut.value_schema, data), schema)


Batches = Iterator[pa.RecordBatch]


def _parser(value_format: str, schema: str, data: t.StructType) -> Callable[[Batches], Batches]:
    """Runs in Spark's Python workers."""

    def parse(batches: Batches) -> Batches:
        columns, kind = value_columns(value_format, schema), to_arrow_type(data)
        for batch in batches:
            values = batch.column("value")
            found = columns.parse(_whole(values)).column if columns else None
            yield batch.append_column(TYPED_COLUMN, fitted(found, kind, len(values)))

    return parse


def _whole(values: Any) -> Any:
    """From the beginning of its buffers, as the kernel wants it."""
    return pa.concat_arrays([values]) if values.offset else values.cast(pa.binary())


def fitted(found: Any, kind: Any, rows: int) -> Any:
    """`found` with the fields of `kind`: nulls where it has not got one."""
    if found is None:
        return pa.nulls(rows, kind)
    if not pa.types.is_struct(kind):
        return found.cast(kind)
    have = {found.type.field(at).name: found.field(at) for at in range(found.type.num_fields)}
    children = [fitted(have.get(field.name), field.type, rows) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=found.is_null())
