"""A topic that is deleted and made again under its name: nothing of it is passed over in silence.

Called as Spark calls it, without a JVM, against a real node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable

import stratamq.spark.union.reading as union_reading
from stratamq.client import LATEST, Client, TopicPartition, options_of
from stratamq.model.errors import TopicRecreated
from stratamq.spark import failures
from stratamq.spark.columns import SCHEMA
from stratamq.spark.failures import HIDE, StrataMQError
from stratamq.spark.lookups import SeenTopics, ask_steady
from stratamq.spark.options import Subscription, read_options
from stratamq.spark.positions import StoredOffsets
from stratamq.spark.source import BatchReader
from stratamq.spark.stream import StreamReader
from stratamq.spark.union.hot import pieces_of
from stratamq.spark.union.pieces import Columns
from stratamq.spark.union.snapshot import snapshot_of
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake
from tests.spark.conftest import Talk, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

EVERYTHING = ReadAllAvailable()
ERROR = "was deleted and made again: its id was"
NewTopic = Callable[..., str]
OLD = [f"old {i}" for i in range(10)]
NEW = [f"new {i}" for i in range(15)]
"""More than there were before: offsets alone do not show that these are others."""


@pytest.fixture(autouse=True)
def _own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set for a worker that ends must not stay in this process."""
    monkeypatch.setenv(HIDE, "")
    failures.warn_once.cache_clear()


@pytest.fixture
def stream(talk: Talk) -> Callable[..., StreamReader]:
    def made(topic: str, **options: object) -> StreamReader:
        said = {"startingOffsets": "earliest", "topic": topic, **options}
        named = {name.lower(): str(value) for name, value in said.items()}
        return StreamReader({"servers": talk.address, **named}, SCHEMA)

    return made


@pytest.fixture
def topic(new_topic: NewTopic, talk: Talk) -> str:
    name = new_topic(partitions=1)
    talk.send_values(name, 0, OLD)
    return name


def make_again(talk: Talk, topic: str, rows: Sequence[str] = NEW) -> None:
    talk.run(lambda client: recreate(client, topic))
    talk.send_values(topic, 0, rows)


async def recreate(client: Client, topic: str) -> None:
    await client.delete_topic(topic)
    await client.create_topic(topic, 1)


def rows(reader: StreamReader | BatchReader, tasks: Sequence[object]) -> list[str]:
    return sorted(
        value.as_py().decode()
        for task in tasks
        for batch in reader.read(task)  # type: ignore[arg-type]
        for value in batch.column("value")
    )


def step(reader: StreamReader, start: StoredOffsets) -> tuple[list[str], StoredOffsets]:
    """One micro-batch."""
    end = reader.latestOffset(start, EVERYTHING)
    return rows(reader, reader.partitions(start, end)), end


def refused(work: Callable[[], object]) -> None:
    with pytest.raises(StrataMQError, match=ERROR) as caught:
        work()
    assert "failOnDataLoss=false reads the new one from its beginning" in str(caught.value)


def test_a_checkpoint_has_the_id_of_its_topic(
    stream: Callable[..., StreamReader], topic: str, talk: Talk
) -> None:
    reader = stream(topic)
    known = talk.run(lambda client: client.describe_topics([topic]))[topic].topic_id.hex()
    start = reader.initialOffset()
    assert start == {topic: {"id": known, "0": 0}}
    read, end = step(reader, start)
    assert (read, end) == (OLD, {topic: {"id": known, "0": 10}})


@pytest.mark.parametrize("restarted", [False, True])
def test_a_topic_made_again_between_two_micro_batches_ends_the_query(
    stream: Callable[..., StreamReader], topic: str, talk: Talk, restarted: bool
) -> None:
    reader = stream(topic)
    _, end = step(reader, reader.initialOffset())
    make_again(talk, topic)
    if restarted:
        reader = stream(topic)
    refused(lambda: reader.latestOffset(end, EVERYTHING))


def test_who_goes_on_reads_all_of_the_new_topic_and_says_so(
    stream: Callable[..., StreamReader], topic: str, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(topic, failOnDataLoss="false")
    _, end = step(reader, reader.initialOffset())
    make_again(talk, topic)
    read, end = step(reader, end)
    assert read == sorted(NEW)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert ERROR in caplog.text
    talk.send_values(topic, 0, ["later"])
    assert step(reader, end)[0] == ["later"]


def test_a_topic_made_again_after_a_micro_batch_was_decided_is_not_read_for_it(
    stream: Callable[..., StreamReader], topic: str, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark has written the end down, and plans the tasks now, perhaps after a restart."""
    strict, lax = stream(topic), stream(topic, failOnDataLoss="false")
    start = strict.initialOffset()
    end = strict.latestOffset(start, EVERYTHING)
    make_again(talk, topic)
    refused(lambda: strict.partitions(start, end))
    assert rows(lax, lax.partitions(start, end)) == []
    assert ERROR in caplog.text
    assert step(lax, end)[0] == sorted(NEW)


def test_a_topic_made_again_while_a_micro_batch_is_read(
    stream: Callable[..., StreamReader], topic: str, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    """Its tasks are planned, and read nothing of the new topic."""
    strict, lax = stream(topic), stream(topic, failOnDataLoss="false")
    start = strict.initialOffset()
    end = strict.latestOffset(start, EVERYTHING)
    tasks = strict.partitions(start, end)
    make_again(talk, topic)
    refused(lambda: rows(strict, tasks))
    assert rows(lax, tasks) == []
    assert ERROR in caplog.text


def test_available_now_does_not_read_another_topic_to_its_target(
    stream: Callable[..., StreamReader], topic: str, talk: Talk
) -> None:
    strict, lax = stream(topic), stream(topic, failOnDataLoss="false")
    start = strict.initialOffset()
    for reader in (strict, lax):
        reader.prepareForTriggerAvailableNow()
    make_again(talk, topic)
    refused(lambda: step(strict, start))
    read, end = step(lax, start)
    assert read == []
    assert lax.latestOffset(end, EVERYTHING) == end, "the target is reached"
    later = stream(topic, failOnDataLoss="false")
    later.prepareForTriggerAvailableNow()
    assert step(later, end)[0] == sorted(NEW)


def test_available_now_finds_another_topic_than_its_checkpoint_has(
    stream: Callable[..., StreamReader], topic: str, talk: Talk
) -> None:
    reader = stream(topic)
    _, end = step(reader, reader.initialOffset())
    make_again(talk, topic)
    later = stream(topic)
    later.prepareForTriggerAvailableNow()
    refused(lambda: later.latestOffset(end, EVERYTHING))


def test_a_checkpoint_of_an_earlier_version_takes_the_id_and_says_so(
    stream: Callable[..., StreamReader], topic: str, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(topic)
    old: StoredOffsets = {topic: {"0": 4}}
    read, end = step(reader, old)
    assert read == OLD[4:]
    assert "the checkpoint is of an earlier version and has no id of it" in caplog.text
    assert end[topic]["id"] == reader.initialOffset()[topic]["id"]
    assert rows(reader, reader.partitions(old, {topic: {"0": 10}})) == OLD[4:], "decided before"
    make_again(talk, topic)
    refused(lambda: reader.latestOffset(end, EVERYTHING))


def test_offsets_that_were_written_down_of_another_topic(
    stream: Callable[..., StreamReader], topic: str, talk: Talk
) -> None:
    """`startingOffsets` as a query reported them, with the id."""
    known = stream(topic).initialOffset()[topic]["id"]
    said = f'{{"{topic}": {{"id": "{known}", "0": 7}}}}'
    assert step(stream(topic, startingOffsets=said), stream(topic).initialOffset())[0] == OLD
    assert stream(topic, startingOffsets=said).initialOffset()[topic]["0"] == 7
    make_again(talk, topic)
    with pytest.raises(StrataMQError, match=ERROR):
        stream(topic, startingOffsets=said).initialOffset()
    lax = stream(topic, startingOffsets=said, failOnDataLoss="false")
    assert lax.initialOffset()[topic]["0"] == 0


def test_topics_of_a_pattern_are_told_apart(
    stream: Callable[..., StreamReader], new_topic: NewTopic, talk: Talk
) -> None:
    names = [new_topic(partitions=1) for _ in range(2)]
    for name in names:
        talk.send_values(name, 0, [f"{name} old"])
    said = {"servers": talk.address, "startingoffsets": "earliest", "failondataloss": "false"}
    reader = StreamReader({**said, "subscribepattern": "|".join(names)}, SCHEMA)
    _, end = step(reader, reader.initialOffset())
    make_again(talk, names[0], ["new", "newer"])
    talk.send_values(names[1], 0, ["more"])
    assert step(reader, end)[0] == ["more", "new", "newer"]


def test_a_table_that_was_planned_is_not_read_from_another_topic(topic: str, talk: Talk) -> None:
    said = {"servers": talk.address, "topic": topic}
    strict = BatchReader(read_options(said, streaming=False), SCHEMA)
    lax = BatchReader(read_options({**said, "failondataloss": "false"}, streaming=False), SCHEMA)
    tasks = strict.partitions()
    assert rows(strict, tasks) == OLD
    make_again(talk, topic)
    refused(lambda: rows(strict, tasks))
    assert rows(lax, tasks) == []
    assert rows(strict, strict.partitions()) == sorted(NEW), "planned again"


def test_a_fetch_by_id_never_gives_another_topic(topic: str, talk: Talk) -> None:
    known = talk.run(lambda client: client.describe_topics([topic]))[topic].topic_id
    make_again(talk, topic)

    async def work(client: Client) -> None:
        place = TopicPartition(topic, 0)
        assert (await client.fetch(place, 0)).data, "by name"
        with pytest.raises(TopicRecreated, match=ERROR):
            await client.fetch(place, 0, topic_id=known)

    talk.run(work)


def test_offsets_found_while_a_topic_is_made_again_are_found_again(topic: str, talk: Talk) -> None:
    """They are asked for by name: the first answer is of the new topic, under the old id."""
    asked: list[bytes] = []

    async def work(client: Client) -> tuple[bytes, int]:
        async def ask(seen: SeenTopics) -> tuple[bytes, int]:
            asked.append(seen.ids[topic])
            if len(asked) == 1:
                await recreate(client, topic)
            ends = await client.list_offsets(dict.fromkeys(seen.places, LATEST))
            return seen.ids[topic], ends[TopicPartition(topic, 0)]

        return await ask_steady(client, Subscription(names=(topic,)), ask)

    known = talk.run(lambda client: client.describe_topics([topic]))[topic].topic_id
    topic_id, end = talk.run(work)
    assert asked == [known, topic_id]
    assert end == 0


def test_the_hot_side_of_a_union_read_is_of_the_topic_that_was_cut(topic: str, talk: Talk) -> None:
    cut = snapshot_of(talk.run(lambda client: client.describe_lake(topic)))
    options = read_options({"servers": talk.address, "topic": topic}, streaming=False)
    pieces, kinds = pieces_of(cut, options), {"value": pa.binary()}
    chunks = list(range(pieces.chunks.count))
    [found] = Columns.read(pieces, chunks, kinds).lists("value").to_pylist()
    assert found == [value.encode() for value in OLD]
    make_again(talk, topic)
    refused(lambda: Columns.read(pieces, chunks, kinds))


class RecreatingClient(Client):
    """Makes the topic again as soon as it was described."""

    async def describe_lake(self, topic: str) -> DescribedLake:
        found = await super().describe_lake(topic)
        await recreate(self, topic)
        return found


async def test_a_union_read_since_a_time_is_not_cut_by_another_topic(
    topic: str, talk: Talk
) -> None:
    """Times are looked up by name: in the new topic nothing is of that time."""
    async with RecreatingClient(options_of(talk.address, {})) as client:
        with pytest.raises(TopicRecreated, match=ERROR):
            await union_reading._cut(client, topic, None, 1)


def test_spark_shows_the_error_of_a_query_that_starts_again(
    spark: SparkSession, topic: str, talk: Talk, tmp_path: Path
) -> None:
    """3,800 of 7,600 records were skipped in silence, once."""
    seen: list[str] = []

    def query() -> StreamingQuery:
        reader = spark.readStream.format("stratamq").options(servers=talk.address, topic=topic)
        frame = reader.option("startingOffsets", "earliest").load()
        writer = frame.writeStream.foreachBatch(lambda part, _: seen.extend(values(part)))
        return writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()

    query().awaitTermination()
    assert seen == OLD
    make_again(talk, topic)
    with pytest.raises(StreamingQueryException, match=ERROR):
        query().awaitTermination()
    assert seen == OLD
