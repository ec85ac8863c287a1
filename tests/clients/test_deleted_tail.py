"""Every client reaches the end of a log whose newest records are deleted or have expired.

Deleted records are not in any answer, so an answer has to say in another way where it ends. What
clients make of that differs: see `encode_skip`.
"""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as RdPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PyPartition

from stratamq.client import BlockingClient, FetchLimits, TopicPartition, options_of
from stratamq.model.record import TTL_HEADER, Record
from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.protocol.messages.lake import LakePartition
from stratamq.wire.kafka.records import Compression, walk
from tests.clients.remote import Remote
from tests.spark_union.deleting import DeletingNode, deleting_node
from tests.waiting import until, wait_until

SECONDS_MAX = 30
SETTINGS = {"topic.flush": "os", "tier.interval.ms": "50", "lake.catalog.uri": "none"}
STORAGES = ["EngineSegment", "EngineRocksDB", "EngineMemory"]
VALUE = b"v" * 300
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is written, each batch of so many records, and what is deleted of it."""

    batches: Sequence[int]
    deleted: Sequence[int]
    compression: Compression = Compression.NONE
    transactions: Sequence[bool] = ()
    """One for each batch, if any: whether it is committed. Its mark has an offset too."""
    fetch_bytes: int = 1 << 20

    @property
    def end(self) -> int:
        return sum(self.batches) + len(self.transactions)


CASES = {
    "the last record of a batch": Case(batches=[3, 3], deleted=[5]),
    "a whole tail": Case(batches=[3, 3, 3], deleted=range(3, 9)),
    "everything": Case(batches=[3, 3], deleted=range(6)),
    "compressed": Case(batches=[3, 3, 3], deleted=range(4, 9), compression=Compression.ZSTD),
    "more than a fetch may bring": Case(batches=[1] * 20, deleted=range(1, 20), fetch_bytes=1000),
    "transactions": Case(batches=[2, 2, 2], deleted=[3, 4, 6, 7], transactions=[True, False, True]),
}


@dataclass(frozen=True)
class Tail:
    """A topic of one partition, and the offsets of what can be read of it."""

    node: DeletingNode
    topic: str
    case: Case
    readable: list[int]


@pytest.fixture(scope="module")
def deleting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeletingNode]:
    with deleting_node(tmp_path_factory.mktemp("tail"), **SETTINGS) as node:
        yield node
        assert "Traceback" not in node.logged(), node.logged()


@pytest.fixture(scope="module")
def tails(deleting: DeletingNode) -> Callable[[str, str], Tail]:
    known: dict[tuple[str, str], Tail] = {}

    def tail(storage: str, name: str) -> Tail:
        if (storage, name) not in known:
            known[storage, name] = made(deleting, storage, CASES[name])
        return known[storage, name]

    return tail


def made(node: DeletingNode, storage: str, case: Case, **configs: str) -> Tail:
    topic = f"tail-{next(_numbers)}"
    place = TopicPartition(topic, 0)
    aborted: list[int] = []
    with BlockingClient(options_of(node.address, {})) as client:
        configs = {"storage.type": storage, **configs}
        client.call(client.asyncio.create_topic(topic, 1, configs=configs))
        sender = client.call(client.asyncio.sender(compression=case.compression))
        ends = iter(case.transactions)
        for size in case.batches:
            records = [Record(value=VALUE, key=b"k") for _ in range(size)]
            if not case.transactions:
                client.call(sender.send(place, records))
                continue
            transaction = client.call(client.asyncio.begin(f"{topic}-t"))
            base = client.call(transaction.send(place, records))
            commit = next(ends)
            client.call(transaction.end(commit=commit))
            aborted += [] if commit else range(base, base + size)
    marks = list(itertools.accumulate(size + 1 for size in case.batches))
    gone = {*case.deleted, *aborted, *(mark - 1 for mark in marks if case.transactions)}
    for offset in case.deleted:
        assert node.delete(topic, 0, offset)
    return Tail(node, topic, case, [at for at in range(case.end) if at not in gone])


# -- the clients: what each of them reads, and where it stops ------------------------------------


def librdkafka(tail: Tail) -> tuple[list[int], int]:
    consumer = Consumer(
        {
            "bootstrap.servers": tail.node.address,
            "group.id": "g",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.message.max.bytes": tail.case.fetch_bytes,
        }
    )
    consumer.assign([RdPartition(tail.topic, 0, 0)])
    seen: list[int] = []
    ends: list[int] = []

    def is_at_end() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            seen.append(message.offset())
        elif message is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ends.append(message.offset())
        return bool(ends)

    wait_until(is_at_end, lambda: f"no end after {seen}")
    consumer.close()
    return seen, ends[0]


def kafka_python(tail: Tail) -> tuple[list[int], int]:
    place = PyPartition(tail.topic, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=tail.node.address,
        group_id=None,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_partition_fetch_bytes=tail.case.fetch_bytes,
    )
    consumer.assign([place])
    consumer.seek_to_beginning()
    seen: list[int] = []

    def is_at_end() -> bool:
        for messages in consumer.poll(500).values():
            seen.extend(message.offset for message in messages)
        return consumer.position(place) >= tail.case.end

    wait_until(is_at_end, lambda: f"no end after {seen}")
    position = consumer.position(place)
    consumer.close()
    return seen, position


async def aiokafka(tail: Tail) -> tuple[list[int], int]:
    place = AioPartition(tail.topic, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=tail.node.address,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_partition_fetch_bytes=tail.case.fetch_bytes,
    )
    await consumer.start()
    seen: list[int] = []

    async def is_at_end() -> bool:
        for messages in (await consumer.getmany(timeout_ms=500)).values():
            seen.extend(message.offset for message in messages)
        return await consumer.position(place) >= tail.case.end

    try:
        consumer.assign([place])
        await until(is_at_end, lambda: f"no end after {seen}")
        return seen, await consumer.position(place)
    finally:
        await consumer.stop()


def own_client(tail: Tail) -> tuple[list[int], int]:
    position = 0
    limits = FetchLimits(bytes_max=tail.case.fetch_bytes, wait_ms_max=0)
    with BlockingClient(options_of(tail.node.address, {})) as client:
        for _ in range(50):
            if position == tail.case.end:
                break
            fetch = client.asyncio.fetch(TopicPartition(tail.topic, 0), position, limits)
            spans = walk(client.call(fetch).data)
            position = spans[-1].last_offset + 1 if spans else position
    return tail.readable, position


# -- tests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", CASES)
def test_librdkafka_reports_the_end(
    tails: Callable[[str, str], Tail], case: str, storage: str
) -> None:
    tail = tails(storage, case)
    assert librdkafka(tail) == (tail.readable, tail.case.end)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", ["a whole tail", "transactions"])
@pytest.mark.parametrize("client", [kafka_python, own_client])
def test_python_clients_reach_the_end(
    tails: Callable[[str, str], Tail],
    client: Callable[[Tail], tuple[list[int], int]],
    case: str,
    storage: str,
) -> None:
    tail = tails(storage, case)
    assert client(tail) == (tail.readable, tail.case.end)


@pytest.mark.parametrize("case", list(CASES))
async def test_aiokafka_reaches_the_end(tails: Callable[[str, str], Tail], case: str) -> None:
    tail = tails("EngineSegment", case)
    assert await aiokafka(tail) == (tail.readable, tail.case.end)


@pytest.mark.needs("kcat")
@pytest.mark.parametrize("case", ["the last record of a batch", "a whole tail", "everything"])
def test_kcat_exits_at_the_end(tails: Callable[[str, str], Tail], case: str) -> None:
    tail = tails("EngineSegment", case)
    command = ["kcat", "-b", tail.node.address, "-C", "-t", tail.topic, "-e", "-q", "-f", "%o\n"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
    assert [int(line) for line in done.stdout.split()] == tail.readable


@pytest.mark.needs("java", "javac", "mvn")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", list(CASES))
def test_javas_consumer_commits_the_end(
    java: Remote, tails: Callable[[str, str], Tail], case: str
) -> None:
    """What a consumer commits is its position, and lag is counted from that."""
    tail = tails("EngineSegment", case)
    config = {
        "bootstrap.servers": tail.node.address,
        "group.id": f"{tail.topic}-java",
        "isolation.level": "read_committed",
        "max.partition.fetch.bytes": str(tail.case.fetch_bytes),
        "enable.auto.commit": "false",
    }
    java.call("consumer", name="c", config=config)
    try:
        java.call("assign", name="c", topic=tail.topic, partitions=[0])
        seen: list[int] = []
        for _ in range(100):
            seen += [one["offset"] for one in java.call("poll", name="c")]
            java.call("commit-sync", name="c")
            committed = java.call("committed", name="c", topic=tail.topic, partitions=[0])
            if committed["0"] == tail.case.end:
                break
        assert (seen, committed) == (tail.readable, {"0": tail.case.end})
    finally:
        java.call("close-consumer", name="c")


@pytest.mark.needs("node", "npm")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", list(CASES))
def test_kafkajs_reaches_the_end(
    kafkajs: Remote, tails: Callable[[str, str], Tail], case: str
) -> None:
    tail = tails("EngineSegment", case)
    config = {"groupId": f"{tail.topic}-js", "maxBytesPerPartition": tail.case.fetch_bytes}
    kafkajs.call("consumer", name="c", kafka=tail.node.address, topic=tail.topic, config=config)
    try:
        wait_until(lambda: kafkajs.call("reached", name="c") == {"0": tail.case.end})
        assert [one["offset"] for one in kafkajs.call("read", name="c")] == tail.readable
    finally:
        kafkajs.call("close", name="c")


@pytest.mark.parametrize("storage", STORAGES)
def test_the_newest_records_have_expired(deleting: DeletingNode, storage: str) -> None:
    case = Case(batches=[], deleted=[])
    tail = made(deleting, storage, case, **{"record.ttl.ms": "0"})
    place = TopicPartition(tail.topic, 0)
    with BlockingClient(options_of(deleting.address, {})) as client:
        sender = client.call(client.asyncio.sender())
        a_second_ago = TimestampMs(time.time_ns() // 1_000_000 - 1000)
        over = Record(value=b"v", headers=((TTL_HEADER, b"1"),), timestamp=a_second_ago)
        client.call(sender.send(place, [Record(value=b"stays")]))
        client.call(sender.send(place, [over, over]))
    tail = Tail(deleting, tail.topic, Case(batches=[1, 2], deleted=[]), [0])
    assert librdkafka(tail) == ([0], 3)


@pytest.mark.parametrize("tier_format", ["parquet", "log"])
def test_the_tail_is_on_object_storage(deleting: DeletingNode, tier_format: str) -> None:
    """All but the last segment is only there, and everything from some offset on is deleted."""
    case = Case(batches=[5] * 8, deleted=[])
    moving = {"segment.bytes": "4000", "local.retention.ms": "0", "tier.format": tier_format}
    topic = made(deleting, "EngineSegment", case, **moving).topic
    with BlockingClient(options_of(deleting.address, {})) as client:
        wait_until(lambda: lake(client, topic).local_start_offset > 20)
        for offset in range(7, case.end):
            assert deleting.delete(topic, 0, offset)
        tail = Tail(deleting, topic, case, list(range(7)))
        assert librdkafka(tail) == (tail.readable, case.end)
        assert own_client(tail)[1] == case.end


def lake(client: BlockingClient, topic: str) -> LakePartition:
    return client.call(client.asyncio.describe_lake(topic)).partitions[0]
