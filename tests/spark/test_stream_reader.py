"""The streaming source against a real node, called as Spark calls it, without a JVM."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from stratamq.client import TopicPartition
from stratamq.model.record import Record
from stratamq.spark.columns import SCHEMA
from stratamq.spark.failures import HIDE, StrataMQError
from stratamq.spark.planning import ReadTask
from stratamq.spark.positions import StoredOffsets
from stratamq.spark.stream import StreamReader
from tests.spark.conftest import Talk
from tests.waiting import wait_until

NewTopic = Callable[..., str]
EVERYTHING = ReadAllAvailable()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set for a worker that ends must not stay in this process."""
    monkeypatch.setenv(HIDE, "")


@pytest.fixture
def stream(talk: Talk) -> Callable[..., StreamReader]:
    def made(topic: str, **options: object) -> StreamReader:
        said = {"startingOffsets": "earliest", **options}
        named = {name.lower(): str(value) for name, value in said.items()}
        return StreamReader({"servers": talk.address, "topic": topic, **named}, SCHEMA)

    return made


def read(reader: DataSourceStreamReader, start: StoredOffsets, end: StoredOffsets) -> list[str]:
    tasks = reader.partitions(start, end)
    assert all(isinstance(task, ReadTask) for task in tasks)
    return sorted(
        value.as_py().decode()
        for task in tasks
        for batch in reader.read(task)
        for value in batch.column("value")  # type: ignore[union-attr]
    )


def offsets(stored: StoredOffsets) -> StoredOffsets:
    """Without the ids of the topics."""
    return {
        name: {key: parts[key] for key in parts if key != "id"} for name, parts in stored.items()
    }


def numbers(first: int, last: int) -> list[str]:
    return [f"{i:04}" for i in range(first, last)]


def test_everything_comes_once_in_pieces(
    stream: Callable[..., StreamReader], new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic()
    talk.send_values(topic, 0, numbers(0, 150))
    talk.send_values(topic, 1, numbers(150, 200))
    reader = stream(topic, maxOffsetsPerTrigger=80)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(80)
    seen: list[str] = []
    start, steps = reader.initialOffset(), 0
    while (end := reader.latestOffset(start, limit)) != start:
        piece = read(reader, start, end)
        assert 0 < len(piece) <= 82
        seen, start, steps = seen + piece, end, steps + 1
    assert sorted(seen) == numbers(0, 200)
    assert steps == 3
    assert start == reader.reportLatestOffset()
    assert offsets(start) == {topic: {"0": 150, "1": 50}}
    assert reader.latestOffset(reader.initialOffset(), EVERYTHING) == start


def test_bytes_limit_a_piece(
    stream: Callable[..., StreamReader], new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic(partitions=1)
    talk.send_values(topic, 0, ["x" * 1000] * 200)
    reader = stream(topic, maxBytesPerTrigger=50_000)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert 40 <= end[topic]["0"] <= 50


def test_too_little_waits_for_more_or_for_time(
    stream: Callable[..., StreamReader], new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic(partitions=1)
    talk.send_values(topic, 0, numbers(0, 5))
    reader = stream(topic, minOffsetsPerTrigger=10, maxTriggerDelay="300ms")
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    assert reader.latestOffset(start, limit) == start
    moved = start

    def is_time_over() -> bool:
        nonlocal moved
        moved = reader.latestOffset(start, limit)
        return moved != start

    wait_until(is_time_over)
    assert offsets(moved) == {topic: {"0": 5}}
    talk.send_values(topic, 0, numbers(5, 20))
    assert offsets(reader.latestOffset(moved, limit)) == {topic: {"0": 20}}


def test_available_now_ends_where_the_topic_ended_then(
    stream: Callable[..., StreamReader], new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic(partitions=1)
    talk.send_values(topic, 0, numbers(0, 10))
    reader = stream(topic, minOffsetsPerTrigger=100)
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    reader.prepareForTriggerAvailableNow()
    talk.send_values(topic, 0, numbers(10, 20))
    end = reader.latestOffset(start, limit)
    assert offsets(end) == {topic: {"0": 10}}
    assert reader.latestOffset(end, limit) == end
    assert offsets(reader.reportLatestOffset()) == {topic: {"0": 20}}, "what is left shows as lag"


def test_partitions_added_while_running_are_read_from_their_beginning(
    stream: Callable[..., StreamReader], new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic(partitions=1)
    talk.send_values(topic, 0, ["old"])
    reader = stream(topic, startingOffsets="latest")
    start = reader.initialOffset()
    assert offsets(start) == {topic: {"0": 1}}
    talk.run(lambda client: client.add_partitions(topic, 2))
    talk.send_values(topic, 1, ["new"])
    end = reader.latestOffset(start, EVERYTHING)
    assert offsets(end) == {topic: {"0": 1, "1": 1}}
    assert read(reader, start, end) == ["new"]


def test_some_partitions_and_one_key(
    stream: Callable[..., StreamReader], new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic(partitions=2)
    for partition in range(2):
        records = [Record(value=f"{partition}{key}".encode(), key=key.encode()) for key in "ab"]
        talk.send(topic, partition, records)
    reader = stream(topic, partitions="1", key="b")
    start = reader.initialOffset()
    assert offsets(start) == {topic: {"1": 0}}
    assert read(reader, start, reader.latestOffset(start, EVERYTHING)) == ["1b"]


def loss_of(work: Callable[[], object]) -> str:
    with pytest.raises(StrataMQError) as caught:
        work()
    return str(caught.value)


def test_what_retention_took_is_named_or_passed_over(
    stream: Callable[..., StreamReader], new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic(partitions=1)
    talk.send_values(topic, 0, numbers(0, 10))
    start, end = {topic: {"0": 2}}, {topic: {"0": 10}}
    strict, lax = stream(topic), stream(topic, failOnDataLoss="false")
    late = strict.partitions(start, end)[0]
    talk.run(lambda client: client.delete_records(TopicPartition(topic, 0), 6))
    said = f"{topic}-0: offset 2 was to be read, but the log has 6 to 10"
    assert said in loss_of(lambda: strict.partitions(start, end))
    assert said in loss_of(lambda: list(strict.read(late))), "planned before, read after"
    assert read(lax, start, end) == numbers(6, 10)
    passed = [row for batch in lax.read(late) for row in batch.column("value").to_pylist()]  # type: ignore[union-attr]
    assert passed == [value.encode() for value in numbers(6, 10)]


def test_a_topic_that_was_made_anew_is_noticed(
    stream: Callable[..., StreamReader], new_topic: NewTopic, talk: Talk
) -> None:
    topic = new_topic(partitions=2)
    reader = stream(topic)
    start: StoredOffsets = {topic: {"0": 7, "1": 0}}
    limit: ReadLimit = EVERYTHING
    assert "offset 7 was to be read" in loss_of(lambda: reader.latestOffset(start, limit))
    gone: StoredOffsets = {topic: {"0": 0, "1": 0, "2": 5}}
    assert f"{topic}-2 is gone" in loss_of(lambda: reader.latestOffset(gone, limit))
    lax = stream(topic, failOnDataLoss="false")
    assert offsets(lax.latestOffset(gone, limit)) == {topic: {"0": 0, "1": 0}}
