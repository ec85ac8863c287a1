"""A real server with history on object storage: what its users see of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog.sql import SqlCatalog

from stratamq.client import BlockingClient, options_of
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake
from tests.clients.node import ROOT, Node

RECORDS = 1500
SCHEMA = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
ORDERS = {
    "segment.bytes": "5000",
    "local.retention.ms": "0",
    "retention.ms": "-1",
    "lake.value.format": "json",
    "lake.value.schema": json.dumps(SCHEMA),
}
FLAGS = (
    *("--tier-interval-ms", "100", "--tier-orphan-grace-ms", "0"),
    *("--topic-flush", "os", "--store-retry-ms-max", "100"),
)
SECONDS_MAX = 60


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    one = Node(tmp_path, *FLAGS)
    yield one
    if one.process.poll() is None:
        one.end(signal.SIGKILL)


def until(done: Callable[[], object], what: str, node: Node) -> None:
    ends = time.monotonic() + SECONDS_MAX
    while not done():
        assert time.monotonic() < ends, f"{what}\n{node.logged()}"
        time.sleep(0.05)


def create(node: Node, name: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result()


def produce(node: Node, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": node.address, "batch.num.messages": 50})
    for number in numbers:
        value = json.dumps({"id": number}) if number % 100 else "not json"
        producer.produce(topic, value, key=f"k{number % 10}", timestamp=1000 + number)
    assert not producer.flush(SECONDS_MAX)


def consumed(node: Node, topic: str, start: int, count: int) -> list[tuple[int, bytes, bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": node.address, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[tuple[int, bytes, bytes]] = []
    ends = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < ends:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def expected(numbers: range) -> list[tuple[int, bytes, bytes]]:
    return [
        (
            number,
            f"k{number % 10}".encode(),
            (json.dumps({"id": number}) if number % 100 else "not json").encode(),
        )
        for number in numbers
    ]


def lake(node: Node, topic: str) -> DescribedLake:
    with BlockingClient(options_of(node.address, {})) as client:
        return client.call(client.asyncio.describe_lake(topic))


def local_start(node: Node, topic: str) -> int:
    return lake(node, topic).partitions[0].local_start_offset


def command(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stratamq.cli", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def filled(node: Node) -> Node:
    """Most of the topic's past is on object storage alone."""
    create(node, "orders", ORDERS)
    produce(node, "orders", range(RECORDS))
    until(lambda: local_start(node, "orders") > RECORDS / 2, "the past moves", node)
    return node


def test_consumers_notice_nothing(filled: Node) -> None:
    assert consumed(filled, "orders", 0, RECORDS) == expected(range(RECORDS))
    again = filled.restarted(signal.SIGKILL)
    assert consumed(again, "orders", 0, RECORDS) == expected(range(RECORDS))
    produce(again, "orders", range(RECORDS, RECORDS + 50))
    whole = range(RECORDS + 50)
    assert consumed(again, "orders", 0, len(whole)) == expected(whole)
    assert again.end() == 0


def test_offsets_are_found_by_time_in_the_past(filled: Node) -> None:
    consumer = Consumer({"bootstrap.servers": filled.address, "group.id": "g"})
    wanted = [TopicPartition("orders", 0, 1000 + 17)]
    assert consumer.offsets_for_times(wanted, timeout=30)[0].offset == 17
    assert consumer.get_watermark_offsets(TopicPartition("orders", 0)) == (0, RECORDS)
    consumer.close()


def test_a_flush_shows_everything_in_the_table(filled: Node, tmp_path: Path) -> None:
    said = command("lake", "flush", "orders", "--servers", filled.address)
    assert "became visible" in said
    files = lake(filled, "orders").partitions[0].files
    assert sum(file.rows for file in files) == RECORDS
    assert sum(file.unparsed for file in files) == RECORDS / 100
    assert files[-1].end_offset == RECORDS
    assert not files[-1].final
    folder = tmp_path / "cold"
    paths = [str(folder / str(file.parquet_key)) for file in files]
    query = 'select count(*), sum(data.id), min("offset"), max("offset") from read_parquet(?)'
    numbers = [number for number in range(RECORDS) if number % 100]
    told = (RECORDS, sum(numbers), 0, RECORDS - 1)
    assert duckdb.execute(query, [paths]).fetchone() == told
    address = f"sqlite:///{tmp_path}/lake/catalog.sqlite"
    with closing(SqlCatalog("stratamq", uri=address)) as catalog:
        table = catalog.load_table("stratamq.orders").scan().to_arrow()
    assert table.num_rows == RECORDS
    assert sum(one["id"] for one in table["data"].to_pylist() if one) == sum(numbers)
    assert "orders" in command("lake", "status", "--servers", filled.address)


def test_what_is_deleted_is_gone_from_the_store_too(filled: Node, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": filled.address})
    before = set((tmp_path / "cold").rglob("*.parquet"))
    at = TopicPartition("orders", 0, RECORDS // 2)
    admin.delete_records([at])[at].result()
    until(
        lambda: before - set((tmp_path / "cold").rglob("*.parquet")),
        "files below the start go",
        filled,
    )
    start = RECORDS // 2
    assert consumed(filled, "orders", start, RECORDS - start) == expected(range(start, RECORDS))
    admin.delete_topics(["orders"])["orders"].result()
    until(
        lambda: not list((tmp_path / "cold").rglob("*.parquet")),
        "a topic's objects go with it",
        filled,
    )


def test_a_store_that_is_away_takes_only_the_past_with_it(filled: Node, tmp_path: Path) -> None:
    tail = local_start(filled, "orders")
    (tmp_path / "cold").rename(tmp_path / "away")
    try:
        hot = consumed(filled, "orders", tail, RECORDS - tail)
        assert hot == expected(range(tail, RECORDS))
        produce(filled, "orders", range(RECORDS, RECORDS + 10))
        consumer = Consumer({"bootstrap.servers": filled.address, "group.id": "g"})
        consumer.assign([TopicPartition("orders", 0, 0)])
        message = consumer.poll(2.0)
        assert message is None or message.error() is not None, "nothing is made up"
        consumer.close()
    finally:
        (tmp_path / "away").rename(tmp_path / "cold")
    assert consumed(filled, "orders", 0, RECORDS + 10) == expected(range(RECORDS + 10))
