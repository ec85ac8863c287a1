"""The questions, and the ways to ask them. Each way has to come to the same answer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as f

import stratamq.spark
from benchmarks.spark.filling import SQL_SCHEMA, TOPIC, Filled
from stratamq.spark.union.reading import frame
from stratamq.spark.union.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY = b"customer-004217"


class Query(NamedTuple):
    name: str
    ask: Callable[[DataFrame, Filled], Any]
    typed: bool = False


def _within(table: DataFrame, filled: Filled) -> Any:
    """A tenth of the topic, on both sides of where its history ends."""
    first, last = (
        datetime.fromtimestamp(filled.moment_ms(share) / 1000, UTC) for share in (0.45, 0.55)
    )
    found = table.where((f.col("timestamp") >= first) & (f.col("timestamp") < last))
    return found.agg(f.count("*"), f.max("offset")).collect()


def _by_country(table: DataFrame, _: Filled) -> Any:
    totals = table.groupBy("country").agg(f.sum("cents"), f.count("*"))
    return sorted(totals.collect())


def _by_key(table: DataFrame, _: Filled) -> Any:
    found = table.where(f.col("key") == f.lit(KEY)).select("partition", "offset", "value")
    return sorted(found.collect())


def _everything(table: DataFrame, _: Filled) -> Any:
    """Every column of every row is made and thrown away."""
    table.write.format("noop").mode("overwrite").save()


QUERIES = (
    Query("count", lambda table, _: table.count()),
    Query("filter on timestamp", _within),
    Query("aggregate on typed columns", _by_country, typed=True),
    Query("key look-up", _by_key),
)
EVERYTHING = Query("all columns", _everything)


# -- ways ------------------------------------------------------------------------------------------


def union_read(spark: SparkSession, filled: Filled) -> DataFrame:
    """As users ask for it: the cut is taken anew each time."""
    return stratamq.spark.topic(spark, TOPIC, servers=filled.address)


def cold_alone(spark: SparkSession, filled: Filled) -> DataFrame:
    return _side(spark, filled, replace(filled.cut, ranges=()))


def hot_alone(spark: SparkSession, filled: Filled) -> DataFrame:
    return _side(spark, filled, replace(filled.cut, files=()))


def _side(spark: SparkSession, filled: Filled, cut: Snapshot) -> DataFrame:
    return frame(spark, cut, {"servers": filled.address}, {}, "flat")


def kafka_format(spark: SparkSession, filled: Filled, *, typed: bool, hot: bool) -> DataFrame:
    """Spark's own connector; what has to be typed goes through its own JSON parser."""
    places = positions(filled.cut) if hot else {}
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", filled.address)
    table = reader.option("subscribe", TOPIC).options(**places).load()
    if not typed:
        return table
    parsed = f.from_json(f.col("value").cast("string"), SQL_SCHEMA).alias("data")
    return table.select("*", parsed).select("*", "data.*")


def positions(cut: Snapshot) -> dict[str, str]:
    """From where to where the hot part is."""
    starts = {one.partition: one.start for one in cut.ranges}
    ends = {one.partition: one.end for one in cut.ranges}
    named = {"startingOffsets": starts, "endingOffsets": ends}
    return {name: json.dumps({TOPIC: places}) for name, places in named.items()}


class PlainParquet:
    """The same rows, written by Spark as it writes Parquet if nobody tells it how."""

    def __init__(self, spark: SparkSession, filled: Filled, folder: Path) -> None:
        self._spark = spark
        self.cold, self.hot = str(folder / "cold"), str(folder / "hot")
        cold_alone(spark, filled).write.parquet(self.cold)
        hot_alone(spark, filled).write.parquet(self.hot)

    def whole(self) -> DataFrame:
        return self._spark.read.parquet(self.cold, self.hot)

    def cold_half(self) -> DataFrame:
        return self._spark.read.parquet(self.cold)


# -- streams ---------------------------------------------------------------------------------------


def stream(spark: SparkSession, kind: str, servers: Mapping[str, str], cut: Snapshot) -> None:
    """The hot part, to its end, with every column."""
    starts = {"startingOffsets": positions(cut)["startingOffsets"]}
    reader = spark.readStream.format(kind).options(**servers, **starts, subscribe=TOPIC)
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = reader.load().writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
