"""Prints a table and keeps it in `benchmarks/results/spark.md`.

python -m benchmarks.spark --records 5000000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark.filling import Filled, node_with
from benchmarks.spark.measuring import KAFKA, NONE, PARQUET, Goal, Pair, faster, no_longer, run
from benchmarks.spark.queries import (
    EVERYTHING,
    QUERIES,
    PlainParquet,
    Query,
    cold_alone,
    hot_alone,
    kafka_format,
    stream,
    union_read,
)
from benchmarks.spark.report import keep, page
from benchmarks.storage.report import as_markdown
from stratamq.spark import session
from tests.peers.spark import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RESULTS = Path(__file__).parents[1] / "results" / "spark.md"


class Pairs:
    """Every row of the table, each question in two ways."""

    def __init__(self, spark: SparkSession, filled: Filled, plain: PlainParquet) -> None:
        self._spark, self._filled, self._plain = spark, filled, plain

    def all(self) -> Iterator[Pair]:
        for query in QUERIES:
            yield self._whole_and_kafka(query, faster(10 if query.typed else 3))
            yield self._whole_and_parquet(query)
        for query in QUERIES:
            yield self._cold_and_parquet(query, no_longer(1.2))
        for query in QUERIES:
            yield self._hot_and_kafka(query, faster(0.7))
        yield self._hot_and_kafka(EVERYTHING, NONE)
        yield self._streams()

    def _whole_and_kafka(self, query: Query, goal: Goal) -> Pair:
        spark, filled = self._spark, self._filled
        return Pair(
            f"whole, {query.name}",
            lambda: query.ask(union_read(spark, filled), filled),
            lambda: query.ask(kafka_format(spark, filled, typed=query.typed, hot=False), filled),
            KAFKA,
            goal,
        )

    def _whole_and_parquet(self, query: Query) -> Pair:
        spark, filled = self._spark, self._filled
        return Pair(
            f"whole, {query.name}",
            lambda: query.ask(union_read(spark, filled), filled),
            lambda: query.ask(self._plain.whole(), filled),
            PARQUET,
        )

    def _cold_and_parquet(self, query: Query, goal: Goal) -> Pair:
        spark, filled = self._spark, self._filled
        return Pair(
            f"cold alone, {query.name}",
            lambda: query.ask(cold_alone(spark, filled), filled),
            lambda: query.ask(self._plain.cold_half(), filled),
            PARQUET,
            goal,
        )

    def _hot_and_kafka(self, query: Query, goal: Goal) -> Pair:
        spark, filled = self._spark, self._filled
        return Pair(
            f"hot alone, {query.name}",
            lambda: query.ask(hot_alone(spark, filled), filled),
            lambda: query.ask(kafka_format(spark, filled, typed=query.typed, hot=True), filled),
            KAFKA,
            goal,
        )

    def _streams(self) -> Pair:
        spark, filled = self._spark, self._filled
        ours, theirs = {"servers": filled.address}, {"kafka.bootstrap.servers": filled.address}
        return Pair(
            "hot alone, a stream to its end",
            lambda: stream(spark, "stratamq", ours, filled.cut),
            lambda: stream(spark, "kafka", theirs, filled.cut),
            KAFKA,
            rows=sum(one.end - one.start for one in filled.cut.ranges),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    load, begun = os.getloadavg()[0], time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {text}", flush=True)

    spark = session(
        "local[2]",
        spark_driver_memory="2g",
        spark_jars=",".join(jars()),
        spark_ui_showConsoleProgress="false",
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="stratamq-bench-") as folder:
        tell(f"writing {given.records:,} records")
        with node_with(given.records, Path(folder) / "node") as filled:
            cold = sum(file.rows for file in filled.cut.files) / given.records
            tell(f"{cold:.0%} is cold; writing the same as plain Parquet")
            plain = PlainParquet(spark, filled, Path(folder))
            rows = run(Pairs(spark, filled, plain).all(), given.rounds, tell)
    print(as_markdown(rows))
    text = page(rows, records=given.records, cold=cold, rounds=given.rounds, load=load)
    RESULTS.parent.mkdir(exist_ok=True)
    keep(RESULTS, text)
    spark.stop()


if __name__ == "__main__":
    main()
