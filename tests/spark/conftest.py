"""One Spark session and one node for all tests: a JVM takes its time to start."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stratamq.client import Client, TopicPartition, options_of
from stratamq.model.record import Record
from tests.clients.node import Node, running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).parent
_numbers = itertools.count()


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one worker, which starts one JVM; the first of them waits for it."""
    for item in items:
        if HERE in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.needs("java", "mvn"))
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from stratamq.spark import session
    from tests.peers.spark import jars

    spark = session(
        "local[2,2]",  # tasks are tried twice
        spark_driver_memory="1g",
        spark_sql_shuffle_partitions="2",
        spark_ui_showConsoleProgress="false",
        spark_jars=",".join(jars()),
        spark_local_dir=str(tmp_path_factory.mktemp("spark")),
        spark_sql_streaming_metricsEnabled="false",
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    data: Path = tmp_path_factory.mktemp("node")
    with running(data, "--topic-flush", "os") as node:
        yield node
        assert node.end() == 0, node.logged()


@pytest.fixture
def new_topic(node: Node) -> Callable[..., str]:
    """Makes a topic that no other test knows."""

    def made(partitions: int = 2, **configs: str) -> str:
        name = f"spark-{next(_numbers)}"
        said = {"retention_ms": "-1", **configs}  # records here are as old as a test likes
        named = {key.replace("_", "."): value for key, value in said.items()}
        Talk(node.address).run(lambda client: client.create_topic(name, partitions, configs=named))
        return name

    return made


class Talk:
    """A client for a moment, in tests that are not asyncio's."""

    def __init__(self, address: str) -> None:
        self.address = address

    def run(self, work: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
        async def main() -> Any:
            async with Client(options_of(self.address, {})) as client:
                return await work(client)

        return asyncio.run(main())

    def send(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        async def work(client: Client) -> None:
            sender = await client.sender()
            for start in range(0, len(records), 100):
                some = records[start : start + 100]
                await sender.send(TopicPartition(topic, partition), some)

        self.run(work)

    def send_values(self, topic: str, partition: int, values: Sequence[str]) -> None:
        self.send(topic, partition, [Record(value=value.encode()) for value in values])


@pytest.fixture
def talk(node: Node) -> Talk:
    return Talk(node.address)


@pytest.fixture
def load(spark: SparkSession, node: Node) -> Callable[..., DataFrame]:
    """A topic as a table."""

    def loaded(topic: str, **options: object) -> DataFrame:
        reader = spark.read.format("stratamq").options(servers=node.address, topic=topic)
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    return loaded


def values(frame: DataFrame) -> list[str]:
    """Of all rows, sorted."""
    rows = frame.selectExpr("cast(value as string)").collect()
    return sorted(row[0] for row in rows)
