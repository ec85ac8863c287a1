"""Spark's own `format("kafka")`, unmodified, against our node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.clients.node import Node
from tests.spark.conftest import Talk, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]
RUN_SECONDS_MAX = 120


def test_batch(
    spark: SparkSession, node: Node, new_topic: NewTopic, load: Callable[..., DataFrame]
) -> None:
    topic = new_topic()
    rows = spark.range(1000).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    servers = {"kafka.bootstrap.servers": node.address}
    rows.write.format("kafka").options(**servers, topic=topic).save()
    kafka = spark.read.format("kafka").options(**servers, subscribe=topic).load()
    assert values(kafka) == values(load(topic)) == sorted(map(str, range(1000)))
    theirs = kafka.orderBy("partition", "offset").collect()
    ours = load(topic).select(kafka.columns).orderBy("partition", "offset").collect()
    assert ours == theirs, "the same columns, types and rows"
    half = spark.read.format("kafka").options(
        **servers, subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 10, "1": -2}}}}'
    )
    assert half.load().count() == 990


def test_streaming(
    spark: SparkSession, node: Node, new_topic: NewTopic, talk: Talk, tmp_path: Path
) -> None:
    source, target = new_topic(), new_topic()
    talk.send_values(source, 0, ["1", "2"])
    talk.send_values(source, 1, ["3"])
    servers = {"kafka.bootstrap.servers": node.address}
    for more in (["4"], []):
        stream = spark.readStream.format("kafka").options(**servers, startingOffsets="earliest")
        query = (
            stream.option("subscribe", source)
            .load()
            .writeStream.format("kafka")
            .options(**servers, topic=target, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(RUN_SECONDS_MAX)
        talk.send_values(source, 1, more)
    kafka = spark.read.format("kafka").options(**servers, subscribe=target).load()
    assert values(kafka) == ["1", "2", "3", "4"]
