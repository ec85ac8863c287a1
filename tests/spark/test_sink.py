"""Rows into topics, by real Spark: each once, whatever fails."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stratamq.client import TopicPartition
from stratamq.spark import lag
from tests.clients.node import Node, running
from tests.spark.conftest import Talk, values

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Load = Callable[..., "DataFrame"]
NewTopic = Callable[..., str]
RUN_SECONDS_MAX = 120


def write(frame: DataFrame, node: Node, **options: str) -> None:
    frame.write.format("stratamq").options(servers=node.address, **options).mode("append").save()


def test_columns_become_records(
    spark: SparkSession, node: Node, load: Load, new_topic: NewTopic
) -> None:
    first, second = new_topic(), new_topic()
    frame = spark.sql(
        f"""
        select '{first}' as topic, 'k' as key, 'v' as value, 1 as partition,
               array(struct('h' as key, X'01' as value)) as headers, array('hot') as tags
        union all select '{second}', null, 'only a value', null, null, null
        """
    )
    write(frame, node, compression="zstd")
    row = load(first).collect()[0]
    assert (bytes(row.key), bytes(row.value), row.partition) == (b"k", b"v", 1)
    assert [(one.key, bytes(one.value)) for one in row.headers] == [("h", b"\x01"), ("tag", b"hot")]
    assert [bytes(tag) for tag in row.tags] == [b"hot"]
    row = load(second).collect()[0]
    assert (row.key, bytes(row.value), row.headers, row.tags) == (None, b"only a value", [], [])
    write(load(first).select("value", "headers", "tags"), node, topic=second)
    copied = load(second).where("value = X'76'").collect()[0]
    assert [bytes(tag) for tag in copied.tags] == [b"hot"], "a tag is not doubled"


def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first attempt dies when its rows are on their way."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        yield batch
        if context.attemptNumber() == 0 and context.partitionId() == 0:
            raise RuntimeError("the first attempt fails")


def test_a_task_that_is_tried_again_writes_once(
    spark: SparkSession, node: Node, load: Load, new_topic: NewTopic
) -> None:
    topic = new_topic()
    rows = spark.range(0, 3000, numPartitions=3).selectExpr("cast(id as string) as value")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        write(rows.mapInArrow(fails_once, "value string"), node, topic=topic)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert values(load(topic)) == sorted(map(str, range(3000)))


def test_failures_are_one_sentence(spark: SparkSession, node: Node, new_topic: NewTopic) -> None:
    topic = new_topic()
    frame = spark.sql("select 'x' as value, 7 as partition, 1 as weight")
    for bad, options, said in (
        (frame, {"topic": topic}, "cannot take the column 'weight'"),
        (frame.select("partition"), {"topic": topic}, "a column 'value' is needed"),
        (frame.select("value"), {}, "which topic?"),
        (frame.select("value"), {"topic": topic, "compresion": "x"}, "did you mean 'compression'"),
        (frame.select("value"), {"topic": "no/name"}, "no/name"),
        (frame.select("value", "partition"), {"topic": topic}, "has 2 partitions, not 7"),
    ):
        with pytest.raises(Exception, match="StrataMQError") as caught:
            write(bad, node, **options)
        assert said in str(caught.value)
        assert "Traceback" not in str(caught.value)


def test_a_new_topic_is_made_as_by_a_kafka_producer(
    spark: SparkSession, node: Node, load: Load
) -> None:
    name = f"new-{uuid.uuid4().hex}"
    write(spark.sql("select 'x' as value"), node, topic=name)
    assert values(load(name)) == ["x"]


def test_where_topics_are_not_made_by_themselves_a_sentence_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running(tmp_path, "--auto-create-topics-enable", "false") as strict:
        with pytest.raises(Exception, match="StrataMQError") as caught:
            write(spark.sql("select 'x' as value"), strict, topic="nowhere")
        assert strict.end() == 0
    said = str(caught.value)
    assert "there is no topic 'nowhere', and auto.create.topics.enable is off" in said
    assert len(said.splitlines()) < 10, said


# -- streams ---------------------------------------------------------------------------------------


class Copy:
    """A query from one topic to another, run to the end of what there is."""

    def __init__(self, spark: SparkSession, node: Node, checkpoint: Path) -> None:
        self._spark, self._node, self.checkpoint = spark, node, checkpoint

    def run(self, source: str, target: str, **options: str) -> StreamingQuery:
        reader = self._spark.readStream.format("stratamq").options(
            servers=self._node.address, topic=source, startingOffsets="earliest", **options
        )
        writer = reader.load().select("key", "value").writeStream.format("stratamq")
        query = (
            writer.options(servers=self._node.address, topic=target)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(RUN_SECONDS_MAX)
        return query

    def forget_last_commit(self) -> None:
        """As if the driver had died right before Spark noted that the last epoch is done."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)


def test_a_stream_goes_on_from_its_checkpoint_and_writes_each_epoch_once(
    spark: SparkSession,
    node: Node,
    load: Load,
    new_topic: NewTopic,
    talk: Talk,
    tmp_path: Path,
) -> None:
    source, target = new_topic(), new_topic()
    talk.send_values(source, 0, [f"a{i}" for i in range(150)])
    talk.send_values(source, 1, [f"b{i}" for i in range(50)])
    copy = Copy(spark, node, tmp_path / "checkpoint")
    query = copy.run(source, target, maxOffsetsPerTrigger="100")
    expected = [f"a{i}" for i in range(150)] + [f"b{i}" for i in range(50)]
    assert values(load(target)) == sorted(expected)
    assert len([one for one in query.recentProgress if one.numInputRows]) == 2
    progress = query.lastProgress
    assert progress is not None
    assert set(lag(progress)) == {TopicPartition(source, 0), TopicPartition(source, 1)}
    assert not any(lag(progress).values())

    talk.run(lambda client: client.add_partitions(source, 3))
    talk.send_values(source, 2, ["c"])
    copy.run(source, target)
    assert values(load(target)) == sorted([*expected, "c"])

    copy.forget_last_commit()
    copy.run(source, target)
    assert values(load(target)) == sorted([*expected, "c"]), "the epoch ran again and wrote nothing"


def test_a_stream_that_lost_what_it_had_not_read_says_so(
    spark: SparkSession, node: Node, new_topic: NewTopic, talk: Talk, tmp_path: Path
) -> None:
    source, target = new_topic(partitions=1), new_topic(partitions=1)
    talk.send_values(source, 0, ["1", "2"])
    copy = Copy(spark, node, tmp_path / "checkpoint")
    copy.run(source, target)
    talk.send_values(source, 0, ["3", "4"])
    talk.run(lambda client: client.delete_records(TopicPartition(source, 0), 3))
    with pytest.raises(Exception, match="offset 2 was to be read, but the log has 3 to 4"):
        copy.run(source, target)


def test_a_stream_whose_target_was_made_again_says_so(
    spark: SparkSession, node: Node, load: Load, new_topic: NewTopic, talk: Talk, tmp_path: Path
) -> None:
    source, target = new_topic(partitions=1), new_topic(partitions=1)
    talk.send_values(source, 0, ["1", "2"])
    copy = Copy(spark, node, tmp_path / "checkpoint")
    copy.run(source, target)
    talk.run(lambda client: client.delete_topic(target))
    talk.run(lambda client: client.create_topic(target, 1))
    talk.send_values(source, 0, ["3"])
    with pytest.raises(Exception, match=f"topic '{target}' was deleted and made again"):
        copy.run(source, target)
    assert values(load(target)) == [], "nothing of that epoch counts"
