"""The side of a union read that is on object storage: Spark's own Parquet reader."""

from __future__ import annotations

from collections.abc import Mapping

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from stratamq.spark.union.columns import (
    MESSAGE_COLUMNS,
    Typed,
    between,
    file_schema,
    quoted,
    typed_columns,
)
from stratamq.spark.union.snapshot import Snapshot, explained, path_of

IN_LIST_MAX = 1000
"""More deleted offsets than this are taken out by a join."""

_HEADERS = (
    "transform(headers, h -> "
    "struct(make_valid_utf8(cast(h.name as string)) as key, h.value as value))"
)
"""Names are bytes in a record and text in Spark."""

_TIMESTAMP_TYPE = (
    "CASE WHEN producer_timestamp IS NOT NULL AND `timestamp` IS NOT NULL THEN 1 ELSE {now} END"
)
"""Files have the producer's own stamp where it is not the one in the table, and that is the node's
then. Where both are the same, the topic's setting decides."""


def cold_side(
    spark: SparkSession, cut: Snapshot, options: Mapping[str, str], typed: Typed
) -> DataFrame | None:
    """Read the part that files have; None without files. `options` are for the file system, such as
    `fs.s3a.endpoint`; they come before Spark's own settings, and those before what the node
    says."""
    if not cut.files:
        return None
    columns = () if typed == "none" else cut.columns
    paths = [path_of(cut.store_url, file.parquet_key or "") for file in cut.files]
    given = {**_unset(spark, cut.reached), **options}
    try:
        rows = spark.read.schema(file_schema(columns)).options(**given).parquet(*paths)
    except (PySparkException, Py4JError) as error:
        raise explained(error, cut.store_url) from None
    visible = ~f.col("aborted")
    for partition, start in cut.starts.items():
        visible &= (f.col("partition") != partition) | (f.col("offset") >= start)
    present = _without_deleted(rows.where(visible), cut)
    dated = between(present, cut.since_ms, cut.as_of_ms)
    made = {
        "topic": f"'{cut.topic}'",
        "headers": _HEADERS,
        "timestampType": _TIMESTAMP_TYPE.format(now=cut.timestamp_type),
    }
    message = [f"{made.get(name, quoted(name))} AS {quoted(name)}" for name in MESSAGE_COLUMNS]
    values = [
        f"{quoted(*one.path.split('.'))} AS {quoted(one.name)}"
        for one in typed_columns(cut.columns, typed)
    ]
    return dated.selectExpr(*message, *values)


def _unset(spark: SparkSession, settings: Mapping[str, str]) -> dict[str, str]:
    """Return those of the settings that the session does not have."""
    own = {name: spark.conf.get(f"spark.hadoop.{name}", None) for name in settings}
    return {name: value for name, value in settings.items() if own[name] is None}


def _without_deleted(rows: DataFrame, cut: Snapshot) -> DataFrame:
    if sum(map(len, cut.deleted.values())) <= IN_LIST_MAX:
        for partition, offsets in cut.deleted.items():
            rows = rows.where((f.col("partition") != partition) | ~f.col("offset").isin(*offsets))
        return rows
    gone = [(part, offset) for part, offsets in cut.deleted.items() for offset in offsets]
    marks = rows.sparkSession.createDataFrame(gone, "partition int, offset long")
    return rows.join(f.broadcast(marks), ["partition", "offset"], "left_anti")
