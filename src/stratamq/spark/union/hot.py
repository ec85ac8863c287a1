"""The side of a union read that comes from the nodes, with values parsed by the same rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from stratamq.lake.parquet.schema import TYPED_COLUMN
from stratamq.spark.columns import SCHEMA
from stratamq.spark.names import FORMAT
from stratamq.spark.union.columns import MESSAGE_COLUMNS, struct_of, until
from stratamq.spark.union.snapshot import Range, Snapshot, rounds
from stratamq.spark.union.typed import TYPED_FORMAT, value_options


def hot_side(
    spark: SparkSession, cut: Snapshot, options: Mapping[str, str], *, typed: bool
) -> DataFrame | None:
    """None where there is nothing. `options` are those of the source."""
    if not cut.ranges:
        return None
    reads = [_read(spark, cut, taken, options, typed) for taken in rounds(cut)]
    return until(reduce(DataFrame.unionByName, reads), cut.as_of_ms)


def _read(
    spark: SparkSession,
    cut: Snapshot,
    taken: Sequence[Range],
    options: Mapping[str, str],
    typed: bool,
) -> DataFrame:
    """Only the partitions that are named: others may have been added since."""
    starts = {cut.topic: {one.partition: one.start for one in taken}}
    ends = {cut.topic: {one.partition: one.end for one in taken}}
    places = {
        "partitions": ",".join(str(one.partition) for one in taken),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }
    fields = [SCHEMA[name] for name in MESSAGE_COLUMNS]
    reader = spark.read.format(FORMAT)
    if typed:
        fields.append(t.StructField(TYPED_COLUMN, struct_of(cut.columns)))
        values = value_options(cut.value_format, cut.value_schema)
        reader = spark.read.format(TYPED_FORMAT).options(**values)
    given = {**options, "topic": cut.topic, **places}
    return reader.schema(t.StructType(fields)).options(**given).load()
