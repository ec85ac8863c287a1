"""Columns of both sides: names, types, and values made to fit."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from stratamq.lake.declared import Column
from stratamq.lake.parquet.values import value_columns
from stratamq.model.errors import InvalidConfig, InvalidInput
from stratamq.spark.columns import SCHEMA as SCHEMA_OF_TOPICS
from stratamq.spark.columns import arrow_schema
from stratamq.spark.options import read_options
from stratamq.spark.reading import reading_of
from stratamq.spark.union.chunks import Chunks
from stratamq.spark.union.columns import flat_names, struct_of
from stratamq.spark.union.pieces import Pieces, WantedColumn, fitted, task_of
from stratamq.spark.union.reading import timestamp_ms
from stratamq.spark.union.snapshot import Range, explained, path_of
from stratamq.wire.kafka.protocol import NO_UUID

SCHEMA = """{"type": "record", "name": "order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "customer", "type": {"type": "record", "name": "c", "fields": [
        {"name": "name", "type": "string"}]}}]}"""


def test_a_field_has_its_own_name_unless_it_is_taken() -> None:
    fields = [Column(name, "long") for name in ("id", "Offset", "ID", "data_Offset", "amount")]
    assert flat_names(fields) == {
        "id": "id",
        "Offset": "data_Offset",
        "ID": "data_ID",
        "data_Offset": "data_data_Offset",
        "amount": "amount",
    }


def test_structs_have_spark_types() -> None:
    columns = (Column("at", "timestamp-millis"), Column("who", "", (Column("name", "string"),)))
    assert struct_of(columns) == t.StructType(
        [
            t.StructField("at", t.TimestampType()),
            t.StructField("who", t.StructType([t.StructField("name", t.StringType())])),
        ]
    )


def test_values_get_the_columns_of_the_whole_table() -> None:
    wide = (
        Column("id", "long"),
        Column("customer", "", (Column("name", "string"), Column("city", "string"))),
        Column("old", "date"),
    )
    declared = value_columns("json", SCHEMA)
    assert declared
    found = declared.parse(pa.array([b'{"id": 1, "customer": {"name": "a"}}', b"?", None]))
    made = fitted(found.column, to_arrow_type(struct_of(wide)), 3)
    assert made.to_pylist() == [
        {"id": 1, "customer": {"name": "a", "city": None}, "old": None},
        None,
        None,
    ]


def test_without_a_format_all_is_null() -> None:
    kind = to_arrow_type(struct_of((Column("id", "long"),)))
    assert fitted(None, kind, 2).to_pylist() == [None, None]


def test_functions_say_what_they_want_when_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the first one that is called makes what all of a task want, and only of that task."""
    number = 1
    context = SimpleNamespace(taskAttemptId=lambda: number)
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    pieces = Pieces(
        topic="orders",
        topic_id=NO_UUID,
        chunks=Chunks((Range(0, 0, 5),)),
        reading=reading_of(
            read_options({"servers": "127.0.0.1:1", "topic": "orders"}, streaming=False),
            arrow_schema(SCHEMA_OF_TOPICS),
        ),
        offset_bytes=1.0,
        value_format="none",
        value_schema="",
    )
    wanted = [WantedColumn(pieces, name, pa.int64()) for name in ("offset", "data.id")]
    assert [pickle.loads(pickle.dumps(one)) for one in wanted] == wanted
    assert task_of().wanted == wanted
    number = 2
    assert task_of().wanted == []


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///data/cold", "file:///data/cold/a/b"),
        ("s3://bucket", "s3a://bucket/a/b"),
        ("s3://bucket/some/where/", "s3a://bucket/some/where/a/b"),
        ("hdfs://name:8020/x", "hdfs://name:8020/x/a/b"),
        ("file:///odd%20%7Bname%7D*", "file:///odd \\{name\\}\\*/a/b"),
    ],
)
def test_files_are_where_spark_looks(url: str, path: str) -> None:
    assert path_of(url, "a/b") == path


def test_a_missing_jar_is_one_sentence() -> None:
    told = explained(
        RuntimeError("java.lang.ClassNotFoundException: org.apache.hadoop.fs.s3a.S3AFileSystem"),
        "s3://bucket",
    )
    assert isinstance(told, InvalidConfig)
    assert "hadoop-aws" in str(told)
    assert "Exception" not in str(told)


@pytest.mark.parametrize(
    "moment",
    [
        1_767_225_600_000,
        "2026-01-01",
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T01:00+01:00",
        datetime(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_moments_are_read_as_people_write_them(moment: datetime | str | int) -> None:
    assert timestamp_ms(moment) == 1_767_225_600_000


def test_what_is_no_moment_is_refused() -> None:
    with pytest.raises(InvalidInput, match="yesterday"):
        timestamp_ms("yesterday")
