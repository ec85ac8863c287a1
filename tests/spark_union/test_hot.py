"""The side that comes from the nodes: exact ranges, and values parsed by the rules of the files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import stratamq.spark
from stratamq.model.record import Record
from stratamq.model.types import TimestampMs
from stratamq.spark.options import read_options
from stratamq.spark.union.chunks import CHUNK_OFFSETS
from stratamq.spark.union.hot import pieces_of
from stratamq.spark.union.pieces import Columns
from stratamq.spark.union.reading import frame
from stratamq.spark.union.snapshot import Range, Snapshot
from stratamq.wire.kafka.protocol import NO_UUID
from tests.clients.node import Node
from tests.spark.conftest import Talk

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
]

SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
T0 = 1_767_225_600_000
COMPILED = "spark.sql.codegen.wholeStage"


@pytest.fixture
def filled(new_topic: Callable[..., str], talk: Talk) -> str:
    """Ten records in each of two partitions; one value of each is no JSON."""
    name = new_topic(2)
    for partition in range(2):
        values = [json.dumps({"id": at}) if at != 3 else "?" for at in range(10)]
        talk.send(
            name,
            partition,
            [
                Record(value=value.encode(), key=b"k", timestamp=TimestampMs(T0 + at))
                for at, value in enumerate(values)
            ],
        )
    return name


def cut(topic: str, *ranges: Range, as_of_ms: int | None = None, typed: bool = False) -> Snapshot:
    from stratamq.lake.declared import columns_of, declared

    return Snapshot(
        topic=topic,
        topic_id=NO_UUID,
        store_url="file:///none",
        value_format="json" if typed else "none",
        value_schema=SCHEMA if typed else "",
        columns=columns_of(declared("json", SCHEMA)) if typed else (),
        files=(),
        starts={},
        deleted={},
        ranges=ranges,
        as_of_ms=as_of_ms,
    )


@pytest.fixture
def read(spark: SparkSession, node: Node) -> Callable[[Snapshot], DataFrame]:
    return lambda wanted: frame(spark, wanted, {"servers": node.address}, {}, "flat")


def offsets(rows: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in rows.collect())


def test_just_the_ranges_are_read(filled: str, read: Callable[[Snapshot], DataFrame]) -> None:
    rows = read(cut(filled, Range(0, 2, 4), Range(0, 7, 9), Range(1, 9, 10)))
    assert offsets(rows) == [(0, 2), (0, 3), (0, 7), (0, 8), (1, 9)]


def test_values_are_parsed(filled: str, read: Callable[[Snapshot], DataFrame]) -> None:
    rows = read(cut(filled, Range(0, 2, 5), typed=True)).orderBy("offset").collect()
    assert [(row.id, row.value) for row in rows] == [
        (2, b'{"id": 2}'),
        (None, b"?"),
        (4, b'{"id": 4}'),
    ]


def test_time_travel(filled: str, read: Callable[[Snapshot], DataFrame]) -> None:
    rows = read(cut(filled, Range(0, 0, 10), as_of_ms=T0 + 3, typed=True))
    assert offsets(rows) == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_what_is_older_is_not_even_fetched(filled: str, spark: SparkSession, node: Node) -> None:
    since = datetime.fromtimestamp((T0 + 7) / 1000, UTC)
    rows = stratamq.spark.topic(spark, filled, servers=node.address, since=since)
    assert offsets(rows) == [(part, at) for part in range(2) for at in (7, 8, 9)]
    none = stratamq.spark.topic(spark, filled, servers=node.address, since=T0 + 10)
    assert offsets(none) == []
    admin = AdminClient({"bootstrap.servers": node.address})
    for done in admin.delete_records([TopicPartition(filled, part, 7) for part in (0, 1)]).values():
        done.result(30)
    assert offsets(rows) == [(part, at) for part in range(2) for at in (7, 8, 9)]


def test_partitions_that_came_later_are_not_in_the_cut(
    filled: str, read: Callable[[Snapshot], DataFrame], talk: Talk
) -> None:
    rows = read(cut(filled, Range(0, 8, 10)))
    talk.run(lambda client: client.add_partitions(filled, 3))
    talk.send_values(filled, 2, ["new"])
    assert offsets(rows) == [(0, 8), (0, 9)]


def test_what_is_not_read_may_be_gone(
    filled: str, node: Node, read: Callable[[Snapshot], DataFrame]
) -> None:
    """A partition that is cold altogether is not asked for at all."""
    rows = read(cut(filled, Range(0, 8, 10)))
    admin = AdminClient({"bootstrap.servers": node.address})
    for done in admin.delete_records([TopicPartition(filled, 1, 10)]).values():
        done.result(30)
    assert offsets(rows) == [(0, 8), (0, 9)]


def functions(rows: DataFrame) -> list[str]:
    """What a query has tasks make; each once, or it would be read twice."""
    plan = rows._jdf.queryExecution().executedPlan().toString()
    made = " ".join(re.findall(r"ArrowEvalPython \[(.*?)\], \[", plan))
    return sorted(re.findall(r"([\w.]+)\(id#", made))


def test_a_column_that_is_not_asked_for_is_not_made(
    filled: str, read: Callable[[Snapshot], DataFrame]
) -> None:
    rows = read(cut(filled, Range(0, 0, 10), Range(1, 0, 10), typed=True))
    total = rows.where("timestamp > '2026-01-01'").groupBy("partition").agg(f.sum("id"))
    assert functions(total) == ["data.id", "offset", "partition", "timestamp"]
    assert functions(rows.groupBy().count()) == ["offset"]
    assert rows.count() == 20
    assert sorted(total.collect()) == [(0, 42), (1, 42)]


def test_columns_stay_beside_each_other(
    spark: SparkSession,
    new_topic: Callable[..., str],
    read: Callable[[Snapshot], DataFrame],
    talk: Talk,
) -> None:
    """Over many chunks and fetches, from the middle of one batch to the middle of another; and
    whether or not Spark compiles the query."""
    name = new_topic(1)
    records = [
        Record(value=b'{"id": %d}' % at, key=b"%d" % at, timestamp=TimestampMs(T0 + at))
        for at in range(5 * CHUNK_OFFSETS)
    ]
    talk.send(name, 0, records)
    wanted = range(CHUNK_OFFSETS // 2, len(records) - 3)
    part = cut(name, Range(0, wanted.start, wanted.stop), typed=True)
    expected = [(at, at, at, records[at].value) for at in wanted]
    for compiled in ("true", "false"):
        spark.conf.set(COMPILED, compiled)
        rows = read(part).collect()
        found = sorted((row.offset, int(row.key), row.id, row.value) for row in rows)
        assert found == expected
    spark.conf.unset(COMPILED)


def test_no_more_is_kept_than_was_asked_for(filled: str, node: Node) -> None:
    given = read_options({"servers": node.address, "topic": filled}, streaming=False)
    pieces = pieces_of(cut(filled, Range(0, 2, 5), typed=True), given)
    columns = Columns.read(pieces, [0], {"data.id": pa.int64()})
    assert columns.lists("data.id").to_pylist() == [[2, None, 4]]
    assert "value" not in columns


def test_the_type_of_timestamps(
    new_topic: Callable[..., str], read: Callable[[Snapshot], DataFrame], talk: Talk
) -> None:
    for setting, number in (("CreateTime", 0), ("LogAppendTime", 1)):
        name = new_topic(1, message_timestamp_type=setting)
        talk.send_values(name, 0, ["a"])
        rows = read(cut(name, Range(0, 0, 1))).select("timestampType").collect()
        assert [row.timestampType for row in rows] == [number]
