"""A real server with history on object storage: what its users see of it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyiceberg.catalog.sql import SqlCatalog

from tests.clients.node import Node
from tests.duck import asked
from tests.tiering.node.users import (
    FLAGS,
    RECORDS,
    command,
    consumed,
    expected,
    fill,
    lake,
    local_start,
    produce,
)
from tests.waiting import wait_until


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    one = Node(tmp_path, *FLAGS)
    yield one
    if one.process.poll() is None:
        one.end(signal.SIGKILL)


@pytest.fixture
def filled(node: Node) -> Node:
    fill(node)
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
    assert asked(query, paths) == [told]
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
    wait_until(lambda: before - set((tmp_path / "cold").rglob("*.parquet")), filled.logged)
    start = RECORDS // 2
    assert consumed(filled, "orders", start, RECORDS - start) == expected(range(start, RECORDS))
    admin.delete_topics(["orders"])["orders"].result()
    wait_until(lambda: not list((tmp_path / "cold").rglob("*.parquet")), filled.logged)


def test_a_key_is_deleted_from_history_too(filled: Node) -> None:
    where = ("--servers", filled.address)
    command("lake", "flush", "orders", *where)
    done = json.loads(command("delete", "orders", "--key", "k3", "--yes", "--json", *where))
    assert done["deleted"] == RECORDS // 10, "what is on object storage alone counts"
    left = [one for one in expected(range(RECORDS)) if one[1] != b"k3"]
    assert consumed(filled, "orders", 0, len(left)) == left
    files = lake(filled, "orders").partitions[0].files
    assert sum(file.rows for file in files) == RECORDS, "files are rewritten later"
    command("lake", "flush", "orders", *where)
    assert not [
        file
        for file in lake(filled, "orders").partitions[0].files
        if not file.final and not file.deleted
    ]
    folder = ("orders", "--json", "--data-dir", str(filled.data))
    segments = json.loads(command("segment", "list", *folder))["segments"]
    assert {one["where"] for one in segments} == {"history", "local"}
    assert sum(one["records"] for one in segments) == RECORDS
    (shard,) = json.loads(command("shard", "describe", *folder))["shards"]
    assert (shard["deleted"], shard["damage"]) == (RECORDS // 10, [])
    assert shard["local_start"] == next(
        one["base_offset"] for one in segments if one["where"] == "local"
    )
    again = filled.restarted(signal.SIGKILL)
    assert consumed(again, "orders", 0, len(left)) == left
    assert again.end() == 0


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
        assert not (tmp_path / "cold").exists(), "nothing is put where a disk is missing"
    finally:
        (tmp_path / "away").rename(tmp_path / "cold")
    assert consumed(filled, "orders", 0, RECORDS + 10) == expected(range(RECORDS + 10))
