"""A topic's files through Spark's own reader of Parquet: the rows that others find, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stratamq.lake.tables.iceberg import IcebergTables
from stratamq.tiering.tables.worker import StoreBlobs
from tests.lake.tables.conftest import (  # noqa: F401
    blobs,
    loop,
    open_tables,
    tables,
)
from tests.lake.tables.files import NARROW, WIDE, make, wanted
from tests.lake.tables.readers import COLUMNS, Found, by_duckdb, by_pyiceberg, found, users_table
from tests.tiering.stores.conftest import _credentials, directory_options  # noqa: F401

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession


def by_spark(spark: SparkSession, table: Table) -> Found:
    files = [task.file.file_path for task in table.scan().plan_files()]
    rows = spark.read.option("mergeSchema", "true").parquet(*files)
    seconds = {"timestamp": "cast(unix_micros(timestamp) as double) / 1e6 as timestamp"}
    selected = rows.selectExpr(*(seconds.get(name, f"`{name}`") for name in COLUMNS))
    plain = [
        tuple(bytes(v) if isinstance(v, bytearray) else _plain(v) for v in row)
        for row in selected.collect()
    ]
    return found(plain)


def _plain(value: object) -> object:
    return [bytes(one) for one in value] if isinstance(value, list) else value


def test_spark_finds_the_same_rows_and_sums(
    spark: SparkSession,
    tables: IcebergTables,  # noqa: F811
    blobs: StoreBlobs,  # noqa: F811
    tmp_path: Path,
) -> None:
    files = [make(blobs, 0, 0, 40), make(blobs, 0, 40, 60, fields=NARROW)]
    files += [make(blobs, 1, 0, 30, fields=WIDE)]
    tables.sync(wanted(files))
    with users_table(tmp_path / "lake" / "catalog.sqlite") as table:
        assert by_spark(spark, table) == by_pyiceberg(table) == by_duckdb(table)
        assert by_spark(spark, table).rows == 90
    files[:2] = [make(blobs, 0, 0, 60, fields=WIDE)]
    tables.sync(wanted(files))
    with users_table(tmp_path / "lake" / "catalog.sqlite") as table:
        paths = [task.file.file_path for task in table.scan().plan_files()]
        assert by_spark(spark, table) == by_pyiceberg(table)
        typed = spark.read.option("mergeSchema", "true").parquet(*paths)
        assert typed.where("data.id >= 30").count() == 30
        assert typed.where("data.at is not null").count() == 90
