"""Transactions of Apache Kafka's Java client, and readers who see only what was committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients.listening import listening
from tests.clients.node import running
from tests.clients.remote import Remote, RemoteError

pytestmark = [pytest.mark.needs("java", "javac", "mvn"), pytest.mark.timeout(900)]

POLLS_MAX = 100
FENCED = {"ProducerFencedException", "InvalidProducerEpochException"}


class Transactions:
    """A producer with a transactional id."""

    def __init__(
        self,
        java: Remote,
        kafka: str,
        topic: str,
        name: str = "one",
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.java, self.topic, self.name = java, topic, f"{topic}-{name}"
        settings = {"bootstrap.servers": kafka, "transactional.id": f"t-{topic}", **(config or {})}
        java.call("producer", name=self.name, config=settings)
        java.call("init", name=self.name)

    def begin(self, *values: str) -> None:
        self.java.call("begin", name=self.name)
        self.send(*values)

    def send(self, *values: str) -> None:
        records = [{"partition": 0, "value": value} for value in values]
        self.java.call("send", name=self.name, topic=self.topic, records=records)

    def send_offset(self, group: str, offset: int) -> None:
        places = [[self.topic, 0, offset]]
        self.java.call("send-offsets", name=self.name, group=group, offsets=places)

    def commit(self) -> None:
        self.java.call("commit", name=self.name)

    def abort(self) -> None:
        self.java.call("abort", name=self.name)

    def close(self) -> None:
        self.java.call("close-producer", name=self.name, within_ms=0)


@pytest.fixture
def one(java: Remote, kafka: str, topic: str) -> Iterator[Transactions]:
    made = Transactions(java, kafka, topic)
    yield made
    made.close()


def read(java: Remote, kafka: str, topic: str, last: str, level: str) -> list[str]:
    """Everything up to the value `last`; after it, nothing more may come."""
    settings = {"bootstrap.servers": kafka, "isolation.level": level}
    java.call("consumer", name="reader", config=settings)
    java.call("assign", name="reader", topic=topic, partitions=[0])
    values: list[str] = []
    for _ in range(POLLS_MAX):
        values += [one["value"] for one in java.call("poll", name="reader")]
        if last in values:
            break
    values += [one["value"] for one in java.call("poll", name="reader", ms=300)]
    java.call("close-consumer", name="reader")
    return values


def committed(java: Remote, kafka: str, topic: str, group: str) -> int | None:
    settings = {"bootstrap.servers": kafka, "group.id": group}
    java.call("consumer", name="asker", config=settings)
    found = java.call("committed", name="asker", topic=topic, partitions=[0])
    java.call("close-consumer", name="asker")
    offset: int | None = found["0"]
    return offset


def test_only_what_was_committed_is_read(
    java: Remote, kafka: str, topic: str, one: Transactions
) -> None:
    one.begin("a", "b")
    one.commit()
    one.begin("never")
    one.abort()
    one.begin("c")
    one.commit()
    assert read(java, kafka, topic, "c", "read_committed") == ["a", "b", "c"]
    assert read(java, kafka, topic, "c", "read_uncommitted") == ["a", "b", "never", "c"]


def test_an_open_transaction_holds_readers_back(
    java: Remote, kafka: str, topic: str, one: Transactions
) -> None:
    one.begin("a")
    one.commit()
    one.begin("b")
    assert read(java, kafka, topic, "a", "read_committed") == ["a"]
    assert read(java, kafka, topic, "b", "read_uncommitted") == ["a", "b"]
    one.commit()
    assert read(java, kafka, topic, "b", "read_committed") == ["a", "b"]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    java: Remote, kafka: str, topic: str, one: Transactions
) -> None:
    group = f"g-{topic}"
    one.begin("a")
    one.send_offset(group, 7)
    one.commit()
    assert committed(java, kafka, topic, group) == 7
    one.begin("b")
    one.send_offset(group, 9)
    one.abort()
    assert committed(java, kafka, topic, group) == 7


def test_a_second_producer_of_the_name_fences_the_first(
    java: Remote, kafka: str, topic: str, one: Transactions
) -> None:
    one.begin("never")
    second = Transactions(java, kafka, topic, "two")
    with pytest.raises(RemoteError) as fenced:
        one.commit()
    assert fenced.value.kind in FENCED
    second.begin("a")
    second.commit()
    second.close()
    assert read(java, kafka, topic, "a", "read_committed") == ["a"]


PRODUCE, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 0, 24, 25, 26, 28


def test_the_client_leaves_it_to_the_node_to_add_partitions_and_groups(
    java: Remote, topic: str, tmp_path: Path
) -> None:
    """transaction.version 2: what is sent is enough, and each end gives the producer an epoch."""
    with listening() as ear, running(tmp_path, "--kafka-advertised-port", str(ear.port)) as node:
        ear.target = (node.host, node.port)
        one = Transactions(java, ear.address, topic)
        for number in range(3):
            one.begin(f"a{number}")
            one.send_offset("g", number)
            one.commit()
            one.begin("never")
            one.abort()
        one.close()
        assert committed(java, ear.address, topic, "g") == 2
        assert read(java, ear.address, topic, "a2", "read_committed") == ["a0", "a1", "a2"]
        versions = dict(ear.seen)
        assert {ADD_PARTITIONS, ADD_OFFSETS}.isdisjoint(versions)
        assert versions[PRODUCE] >= 12
        assert (versions[END], versions[COMMIT_OFFSETS]) == (5, 5)
        assert node.end() == 0, node.logged()
