"""A job that tries everything once on whatever cluster it is submitted to.

    stratamq spark submit --servers ... --master ... application.py FOLDER

Topics are there already: `whole` with history, `copy` and `rows` empty. It ends with a line of
JSON: what came out, by the name of the trial.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stratamq.spark import register, topic
from stratamq.spark.jobs import compact_files

SECONDS_MAX = 100
ID = "get_json_object(cast(value as string), '$.id') as id"


def main(folder: Path) -> None:
    spark = register(SparkSession.builder.getOrCreate())
    spark.sparkContext.setLogLevel("OFF")
    trials = (executors, table, union, written, stream, job)
    told = {trial.__name__: trial(spark, folder) for trial in trials}
    print(json.dumps(told))


def executors(spark: SparkSession, folder: Path) -> int:
    """How many take part: each has folders of its own."""

    def named(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"name": [os.environ["SPARK_EXECUTOR_DIRS"]]})

    return spark.range(0, 8, 1, 8).mapInArrow(named, "name string").distinct().count()


def table(spark: SparkSession, folder: Path) -> list[int]:
    return counted(read(spark, "whole").selectExpr(ID))


def union(spark: SparkSession, folder: Path) -> list[int]:
    return counted(topic(spark, "whole"))


def written(spark: SparkSession, folder: Path) -> list[int]:
    rows = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) as value")
    rows.write.format("stratamq").options(servers=servers(spark), topic="rows").mode(
        "append"
    ).save()
    return counted(read(spark, "rows").selectExpr("cast(value as string) as id"))


def stream(spark: SparkSession, folder: Path) -> list[int]:
    """From `whole` to `copy`, in several epochs; a second run finds nothing new."""
    for _ in range(2):
        source = spark.readStream.format("stratamq").options(
            servers=servers(spark),
            topic="whole",
            startingOffsets="earliest",
            maxOffsetsPerTrigger="400",
        )
        sink = source.load().select("key", "value").writeStream.format("stratamq")
        query = (
            sink.options(servers=servers(spark), topic="copy")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(SECONDS_MAX), "the query does not end"
    return counted(read(spark, "copy").selectExpr(ID))


def job(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Small files become fewer, and the topic stays what it was."""
    outcome = compact_files(spark, "whole")
    rows = counted(topic(spark, "whole"))
    return {"replaced": outcome.replaced, "made": outcome.made, "rows": rows}


def read(spark: SparkSession, name: str) -> DataFrame:
    return spark.read.format("stratamq").options(servers=servers(spark), topic=name).load()


def servers(spark: SparkSession) -> str:
    found = spark.conf.get("spark.stratamq.servers")
    assert found is not None
    return found


def counted(rows: DataFrame) -> list[int]:
    """How many, how many different ones, and their sum."""
    count = "count(*)", "count(distinct id)", "cast(coalesce(sum(cast(id as long)), 0) as long)"
    return list(rows.selectExpr(*count).collect()[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
