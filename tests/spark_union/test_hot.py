"""The side that comes from the nodes: exact ranges, and values parsed by the rules of the files."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from stratamq.model.record import Record
from stratamq.model.types import TimestampMs
from stratamq.spark.union.reading import frame
from stratamq.spark.union.snapshot import Range, Snapshot
from tests.clients.node import Node
from tests.spark.conftest import Talk

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
]

SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
T0 = 1_767_225_600_000


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
