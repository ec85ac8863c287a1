"""Prints a table and keeps it in `benchmarks/results/spark.md`: seconds, the best of three.

python -m benchmarks.spark --records 5000000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.spark.filling import RECORD_BYTES, TOPIC, node_with
from benchmarks.storage.report import machine
from stratamq.spark import session
from tests.peers.spark import jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULTS = Path(__file__).parents[1] / "results" / "spark.md"
GOAL = 0.7
TIMES = 3
FORMATS = ("stratamq", "kafka")


class Case(NamedTuple):
    name: str
    run: Callable[[SparkSession, str, str], object]


class Timed(NamedTuple):
    name: str
    ours_s: float
    kafkas_s: float

    @property
    def ratio(self) -> float:
        """How fast we are, with Spark's own as 1."""
        return self.kafkas_s / self.ours_s


def table(spark: SparkSession, kind: str, servers: str) -> DataFrame:
    options = {"servers" if kind == "stratamq" else "kafka.bootstrap.servers": servers}
    return spark.read.format(kind).options(**options, subscribe=TOPIC).load()


def consume(frame: DataFrame) -> None:
    """All columns of all rows are made and thrown away."""
    frame.write.format("noop").mode("overwrite").save()


def total(frame: DataFrame) -> object:
    cents = "get_json_object(cast(value as string), '$.cents')"
    return frame.selectExpr(f"sum(cast({cents} as long))").collect()


def stream(spark: SparkSession, kind: str, servers: str) -> None:
    options = {"servers" if kind == "stratamq" else "kafka.bootstrap.servers": servers}
    reader = spark.readStream.format(kind).options(**options, startingOffsets="earliest")
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            reader.option("subscribe", TOPIC)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


CASES = (
    Case("count", lambda spark, kind, servers: table(spark, kind, servers).count()),
    Case("all columns", lambda spark, kind, servers: consume(table(spark, kind, servers))),
    Case("sum of a JSON field", lambda spark, kind, servers: total(table(spark, kind, servers))),
    Case(
        "one key",
        lambda spark, kind, servers: consume(table(spark, kind, servers).where("key = X'3432'")),
    ),
    Case("stream, to the end", stream),
)


def best_s(case: Case, spark: SparkSession, kind: str, servers: str) -> float:
    found = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        case.run(spark, kind, servers)
        found.append(time.perf_counter() - begun)
    return min(found)


def measure(spark: SparkSession, servers: str) -> list[Timed]:
    rows = []
    for case in CASES:
        ours, kafkas = (best_s(case, spark, kind, servers) for kind in FORMATS)
        rows.append(Timed(case.name, ours, kafkas))
        print(f"{case.name}: {ours:.2f} s, format('kafka') {kafkas:.2f} s", flush=True)
    return rows


def as_markdown(rows: list[Timed], records: int) -> str:
    lines = [
        "| all of a hot topic | `stratamq` s | rows/s | `kafka` s | rows/s | ours / kafka | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.ours_s:.2f} | {records / row.ours_s:,.0f} | {row.kafkas_s:.2f} "
        f"| {records / row.kafkas_s:,.0f} | {row.ratio:.2f} | {GOAL} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    records = parser.parse_args().records
    spark = session(
        "local[2]",
        spark_driver_memory="2g",
        spark_jars=",".join(jars()),
        spark_ui_showConsoleProgress="false",
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder, node_with(records, Path(folder)) as node:
        rows = measure(spark, node.address)
    found = as_markdown(rows, records)
    print(found)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        f"# Spark\n\n`make bench-spark ARGS='--records {records}'`, {date.today()}, {machine()}. "
        f"Records of about {RECORD_BYTES} bytes of JSON in four partitions, `local[2]`, the best "
        f"of {TIMES} runs each, the node beside Spark on the same cores.\n\n{found}\n"
    )
    spark.stop()


if __name__ == "__main__":
    main()
