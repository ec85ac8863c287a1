"""kafkajs: produce, consume, groups. It knows no flexible version of any API."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.groups import FLAGS, PARTITIONS
from tests.clients.node import Node, running
from tests.clients.remote import Remote, RemoteError, as_text
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs("node", "npm"), pytest.mark.timeout(900)]

YESTERDAY_MS = (int(time.time()) - 86_400) * 1000
"""The producer's own time, but no older than retention: that would delete the records."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("kafkajs"), *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


class Clients:
    """Producers and consumers by name; what is open at the end of a test is closed."""

    def __init__(self, kafkajs: Remote, kafka: str) -> None:
        self.kafkajs, self.kafka = kafkajs, kafka
        self.names: list[str] = []

    def producer(self, **config: object) -> None:
        """Its name is p."""
        self.kafkajs.call("producer", name="p", kafka=self.kafka, config=config)
        self.names.append("p")

    def consumer(self, name: str, topic: str, **config: object) -> None:
        group = {"groupId": f"g-{topic}", "heartbeatInterval": 100, "sessionTimeout": 6000}
        self.kafkajs.call(
            "consumer", name=name, kafka=self.kafka, topic=topic, config=group | config
        )
        self.names.append(name)

    def close(self, name: str) -> None:
        self.names.remove(name)
        self.kafkajs.call("close", name=name)


@pytest.fixture
def clients(kafkajs: Remote, kafka: str) -> Iterator[Clients]:
    clients = Clients(kafkajs, kafka)
    yield clients
    for name in list(clients.names):
        clients.close(name)


def reading(kafkajs: Remote, name: str, count: int) -> list[dict[str, Any]]:
    wait_until(lambda: len(kafkajs.call("read", name=name)) >= count, f"{count} messages")
    return sorted(kafkajs.call("read", name=name), key=lambda one: one["offset"])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_what_goes_in_comes_out(
    kafkajs: Remote, clients: Clients, topic: str, codec: str, idempotent: bool
) -> None:
    values = [f"value {number} " * 10 for number in range(500)]
    clients.producer(idempotent=idempotent)
    records = [{"value": value, "partition": 0} for value in values]
    for at in (0, 250):
        sent = kafkajs.call(
            "send", name="p", topic=topic, records=records[at : at + 250], codec=codec
        )
        assert sent == [[0, at]]
    clients.consumer("c", topic)
    found = reading(kafkajs, "c", 500)
    assert [one["value"] for one in found] == values
    assert [one["offset"] for one in found] == list(range(500))


def test_keys_headers_nulls_and_timestamps_survive(
    kafkajs: Remote, clients: Clients, topic: str
) -> None:
    every_byte = as_text(bytes(range(256)))
    records: list[dict[str, Any]] = [
        {"key": "k", "value": "v", "headers": {"h": "1", "e": ""}},
        {"key": None, "value": "", "headers": {}},
        {"key": "", "value": None, "headers": {}},
        {"key": every_byte, "value": every_byte, "headers": {}},
    ]
    for number, record in enumerate(records):
        record |= {"timestamp": YESTERDAY_MS + number, "partition": 0}
    clients.producer()
    kafkajs.call("send", name="p", topic=topic, records=records)
    clients.consumer("c", topic)
    found = reading(kafkajs, "c", len(records))
    assert [{name: one[name] for name in records[0]} for one in found] == records


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_kind_of_acknowledgement(
    kafkajs: Remote, clients: Clients, topic: str, acks: int
) -> None:
    clients.producer()
    for number in range(20):
        record = {"value": str(number), "partition": 0}
        kafkajs.call("send", name="p", topic=topic, records=[record], acks=acks)
    clients.consumer("c", topic)
    assert [one["value"] for one in reading(kafkajs, "c", 20)] == list(map(str, range(20)))


def test_more_than_a_topic_takes_is_refused(kafkajs: Remote, clients: Clients, topic: str) -> None:
    clients.producer()
    with pytest.raises(RemoteError) as refused:
        kafkajs.call("send", name="p", topic=topic, records=[{"value": "x" * 2_000_000}])
    assert refused.value.kind == "MESSAGE_TOO_LARGE"


def fill(kafkajs: Remote, topic: str, count: int) -> set[str]:
    """So many messages in each partition, by the producer `p`."""
    records = [
        {"partition": partition, "value": f"{partition}/{number}"}
        for partition in range(PARTITIONS)
        for number in range(count)
    ]
    kafkajs.call("send", name="p", topic=topic, records=records)
    return {str(record["value"]) for record in records}


def test_members_share_and_take_over(kafkajs: Remote, clients: Clients, topic: str) -> None:
    clients.producer()
    values = fill(kafkajs, topic, 5)
    clients.consumer("first", topic)
    assert {one["value"] for one in reading(kafkajs, "first", len(values))} == values

    def partitions(name: str) -> set[int]:
        return set(kafkajs.call("assignment", name=name))

    clients.consumer("second", topic)
    half = PARTITIONS // 2
    wait_until(
        lambda: len(partitions("first")) == len(partitions("second")) == half, "each has half"
    )
    assert not partitions("first") & partitions("second")
    clients.close("second")
    wait_until(lambda: len(partitions("first")) == PARTITIONS, "the first has all again")


def test_a_group_goes_on_where_it_was(kafkajs: Remote, clients: Clients, topic: str) -> None:
    clients.producer()
    values = fill(kafkajs, topic, 5)
    clients.consumer("first", topic)
    assert {one["value"] for one in reading(kafkajs, "first", len(values))} == values
    places = [{"topic": topic, "partition": number, "offset": "5"} for number in range(PARTITIONS)]
    kafkajs.call("commit", name="first", offsets=places)
    clients.close("first")
    fill(kafkajs, topic, 1)
    clients.consumer("second", topic)
    found = reading(kafkajs, "second", PARTITIONS)
    assert [one["offset"] for one in found] == [5] * PARTITIONS
