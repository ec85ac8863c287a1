"""A topic as a table, by real Spark from a real node."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from stratamq.client import Client, TopicPartition
from stratamq.model.record import Record
from stratamq.model.types import TimestampMs
from tests.clients.node import Node
from tests.spark.conftest import Talk, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Load = Callable[..., "DataFrame"]
NewTopic = Callable[..., str]
T0_MS = 1_714_521_600_000  # 2024-05-01


def test_a_row_is_the_whole_record(load: Load, new_topic: NewTopic, talk: Talk) -> None:
    topic = new_topic(partitions=1)
    full = Record(
        key=b"k",
        value=b"v",
        headers=((b"h", b"1"), (b"none", None), (b"\xff", b"")),
        tags=(b"hot", b"new"),
        timestamp=TimestampMs(T0_MS + 5),
    )
    talk.send(topic, 0, [full, Record(timestamp=TimestampMs(T0_MS))])
    first, second = load(topic).orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"v")
    assert (first.topic, first.partition, first.offset, first.timestampType) == (topic, 0, 0, 0)
    assert first.timestamp.microsecond == 5000
    headers = [(one.key, one.value and bytes(one.value)) for one in first.headers]
    tags = [("tag", b"hot"), ("tag", b"new")]
    assert sorted(headers) == sorted([("h", b"1"), ("none", None), ("\ufffd", b""), *tags])
    assert [bytes(tag) for tag in first.tags] == [b"hot", b"new"]
    assert (second.key, second.value, second.headers, second.tags) == (None, None, [], [])


def test_splits_and_ranges(load: Load, new_topic: NewTopic, talk: Talk) -> None:
    """Tasks begin and end in the midst of batches: each row comes once, whatever is asked for."""
    topic = new_topic()
    for partition in range(2):
        records = [
            Record(
                value=f"{partition}-{i}".encode(),
                key=b"%d" % (i % 7),
                tags=(b"even",) if i % 2 == 0 else (),
                timestamp=TimestampMs(T0_MS + i * 1000),
            )
            for i in range(350)
        ]
        talk.send(topic, partition, records)
    everything = sorted(f"{partition}-{i}" for partition in range(2) for i in range(350))
    whole = load(topic, minPartitions=9)
    assert whole.rdd.getNumPartitions() >= 9
    assert values(whole) == everything
    window = load(
        topic,
        startingOffsets=f'{{"{topic}": {{"0": 133, "1": -1}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 250}}}}',
    )
    assert values(window) == sorted(f"0-{i}" for i in range(133, 250))
    timed = load(topic, startingTimestamp=T0_MS + 340_000, endingTimestamp=T0_MS + 345_000)
    assert values(timed) == sorted(f"{p}-{i}" for p in range(2) for i in range(340, 345))
    some = load(topic, tag="even", partitions="1", key="3")
    assert values(some) == sorted(f"1-{i}" for i in range(350) if i % 14 == 10)
    assert values(load(topic).where("value = cast('0-5' as binary)")) == ["0-5"]


def test_a_data_frame_is_one_snapshot_for_all_queries_over_it(
    load: Load, new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic(partitions=1)
    talk.send_values(topic, 0, ["a", "b", "c"])
    frame = load(topic)
    assert values(frame.where("offset > 1")) == ["c"]
    talk.send_values(topic, 0, ["d"])
    assert values(frame) == ["a", "b", "c"]
    twice = frame.where("offset = 0").union(frame.where("offset = 2")).union(frame)
    assert values(twice) == ["a", "a", "b", "c", "c"]
    assert values(load(topic)) == ["a", "b", "c", "d"]


def test_filters_are_taken_over_if_asked_for(
    spark: SparkSession, load: Load, new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic()
    for partition in range(2):
        records = [
            Record(
                value=f"{partition}-{i}".encode(),
                key=b"%d" % (i % 7),
                timestamp=TimestampMs(T0_MS + i * 1000),
            )
            for i in range(350)
        ]
        talk.send(topic, partition, records)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        late = load(topic, pushFilters="true").where(
            "timestamp >= timestamp'2024-05-01 00:05:00' and key = X'33' and partition = 1"
        )
        hits = [i for i in range(300, 350) if i % 7 == 3]
        assert values(late) == sorted(f"1-{i}" for i in hits)
        plan = late._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
        assert "Filter " not in plan, "the source does it"
        assert values(load(topic, pushFilters="true").where("offset < 2 and value > X'31'")) == [
            *("1-0", "1-1")
        ]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_only_what_is_committed(load: Load, new_topic: NewTopic, talk: Talk) -> None:
    topic = new_topic(partitions=1)
    place = TopicPartition(topic, 0)

    async def work(client: Client) -> None:
        for value, commit in ((b"kept", True), (b"dropped", False), (b"also kept", True)):
            transaction = await client.begin(uuid.uuid4().hex)
            await transaction.send(place, [Record(value=value)])
            await transaction.end(commit=commit)
        await (await client.begin(uuid.uuid4().hex)).send(place, [Record(value=b"open")])

    talk.run(work)
    assert values(load(topic)) == ["also kept", "kept"]
    assert values(load(topic, isolation="read_uncommitted")) == [
        *("also kept", "dropped", "kept", "open")
    ]


def test_many_topics_and_fewer_columns(
    spark: SparkSession, node: Node, new_topic: NewTopic, talk: Talk
) -> None:
    first, second = new_topic(), new_topic()
    talk.send_values(first, 0, ["1"])
    talk.send_values(second, 1, ["2"])
    reader = spark.read.format("stratamq").option("servers", node.address)
    both = reader.option("subscribe", f"{first}, {second}").schema("offset long, value binary")
    frame = both.load()
    assert frame.columns == ["offset", "value"]
    assert values(frame) == ["1", "2"]
    pattern = spark.read.format("stratamq").options(
        servers=node.address, subscribePattern=f"{first}|{second}", columns="value, partition"
    )
    assert pattern.load().columns == ["value", "partition"]
    assert values(pattern.load()) == ["1", "2"]
    assert pattern.load().agg({"partition": "sum"}).collect()[0][0] == 1


def test_an_empty_topic_is_an_empty_table(load: Load, new_topic: NewTopic) -> None:
    assert values(load(new_topic())) == []


def test_failures_are_one_sentence(spark: SparkSession, load: Load, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=1)
    for frame, said in (
        (lambda: load(topic, startingOfsets="x"), "did you mean 'startingOffsets'?"),
        (lambda: load(topic, columns="key,valve"), "a topic has no column 'valve', only key, "),
        (lambda: load("nowhere"), "there is no topic 'nowhere'"),
        (lambda: load(topic, startingOffsets=f'{{"{topic}": {{"0": 7}}}}'), "offset 7 was to be"),
        (lambda: load(topic, endingOffsets=f'{{"{topic}": {{"0": 9}}}}'), "offset 9 was to be"),
        (lambda: load(topic, servers="127.0.0.1:1", **{"retry.ms": 50}), "cannot be reached"),
    ):
        with pytest.raises(Exception, match="StrataMQError") as caught:
            frame().collect()
        text = str(caught.value)
        assert said in text
        assert "Traceback" not in text
        assert len(text.splitlines()) <= 3, text
