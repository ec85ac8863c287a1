"""A backup of a real node at work, restored elsewhere after the node was killed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from stratamq.node.data_dir import read_damage
from tests.backup.load import Load, Place, records
from tests.cli.tool import Tool
from tests.clients.node import running
from tests.waiting import wait_until

TOPICS = {
    "segments": ("segment.bytes=1000000", "flush=sync"),
    "quick": ("segment.bytes=1000000", "flush=os"),
    "rows": ("storage.type=EngineRocksDB",),
    "memory": ("storage.type=EngineMemory", "memory.persist=true", "segment.bytes=1000000"),
}
PARTITIONS = 2
FLAGS = (
    *("--log-level", "warning", "--housekeeping-interval-ms", "200"),
    *("--transaction-abort-timed-out-transaction-cleanup-interval-ms", "100"),
)


def end_of(address: str, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "looking"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 60)
    finally:
        consumer.close()
    return int(end)


@pytest.mark.timeout(300)
def test_everything_acknowledged_before_is_there(tmp_path: Path) -> None:
    backups, restored = tmp_path / "backups", tmp_path / "restored"
    with running(tmp_path / "data", *FLAGS, "--backup-folder", str(backups)) as node:
        tool = Tool({"STRATAMQ_SERVER": node.address})
        for topic, settings in TOPICS.items():
            configs = [word for one in settings for word in ("--config", one)]
            tool.ok("topic", "create", topic, "--partitions", PARTITIONS, *configs)
        tool.ok("topic", "create", "paid", "--partitions", 2)
        tool.ok("user", "add", "alice", given="correct horse\n")
        tool.ok("quota", "set", "--user", "alice", "producer_byte_rate=1000000")
        load = Load(node.address)
        load.start(
            *(load.producing(topic) for topic in TOPICS),
            load.transacting("paid", "payers"),
            load.committing("segments", "keepers"),
        )
        try:
            wait_until(
                lambda: (
                    len({place.topic for place in list(load.acknowledged)}) == len(TOPICS)
                    and len(load.acknowledged) > 5000
                    and len(load.transactions) > 5
                    and load.committed
                ),
                "all clients are at work",
            )
            before, paid = dict(load.acknowledged), list(load.transactions)
            kept = load.committed[-1]
            tool.ok("topic", "create", "new-before")
            made = tool.json("backup", "--to", "monday")
            tool.ok("topic", "create", "new-after")
            more = len(load.acknowledged)
            wait_until(lambda: len(load.acknowledged) > more + 1000, "it goes on serving")
        finally:
            load.stop()
        assert load.failures == []
        node.end(signal.SIGKILL)
    assert made["path"] == str(backups / "monday")
    tool.ok("restore", backups / "monday", "--check")
    tool.ok("restore", backups / "monday", "--data-dir", restored)
    with running(restored, *FLAGS) as node:
        tool = Tool({"STRATAMQ_SERVER": node.address})
        found: dict[Place, bytes] = {}
        for topic in TOPICS:
            found |= records(node.address, topic, PARTITIONS)
        assert {place: found.get(place) for place in before} == before
        assert found.items() <= load.acknowledged.items()
        names = {one["name"] for one in tool.json("topic", "list")["topics"]}
        assert names == {*TOPICS, "paid", "new-before"}
        assert [one["name"] for one in tool.json("user", "list")["users"]] == ["alice"] * 2
        assert tool.json("quota", "list")["quotas"]
        at = offset_of(node.address, "keepers", "segments")
        assert kept <= at <= end_of(node.address, "segments", 0)
        check_transactions(node.address, paid)
        check_offsets_go_on(node.address)
        assert node.end() == 0, node.logged()
        tool.ok("doctor", "--data-dir", restored)
    assert read_damage(restored) == []


def offset_of(address: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        [found] = consumer.committed([TopicPartition(topic, 0)], 60)
    finally:
        consumer.close()
    return int(found.offset)


def check_transactions(address: str, paid: list[bytes]) -> None:
    """Both partitions have the same transactions, whole, and the group has their number. The next
    instance of the producer ends what was under way, and no transaction is left open."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "t"})
    producer.init_transactions(60)
    found = records(address, "paid", 2, committed=True)
    sides = [
        [value for place, value in sorted(found.items()) if place.partition == one]
        for one in range(2)
    ]
    assert sides[0] == sides[1]
    assert sides[0][: len(paid)] == paid
    assert offset_of(address, "payers", "paid") == int(sides[0][-1])
    producer.begin_transaction()
    for partition in range(2):
        producer.produce("paid", b"last", partition=partition)
    producer.commit_transaction(60)
    last = records(address, "paid", 2, committed=True)
    assert sum(value == b"last" for value in last.values()) == 2


def check_offsets_go_on(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for topic in TOPICS:
        end, placed = end_of(address, topic, 0), list[int]()
        producer.produce(
            topic,
            b"next",
            partition=0,
            on_delivery=lambda error, message, placed=placed: placed.append(message.offset()),
        )
        producer.flush(60)
        assert placed == [end]
