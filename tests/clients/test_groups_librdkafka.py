"""confluent-kafka (librdkafka) in groups, with the classic and with the consumer protocol."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import ConsumerGroupTopicPartitions as GroupOffsets
from confluent_kafka.admin import AdminClient

from tests.clients.groups import FLAGS, PARTITIONS, SECONDS_MAX
from tests.clients.node import Node, running
from tests.waiting import wait_until

PROTOCOLS = ["classic", "consumer"]
KINDS = [*PROTOCOLS, "cooperative"]
SETTINGS: dict[str, dict[str, object]] = {
    "classic": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 100},
    "cooperative": {
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 100,
        "partition.assignment.strategy": "cooperative-sticky",
    },
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("groups"), *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


class Member:
    """A consumer that keeps what it read and counts how often its partitions changed."""

    def __init__(self, kafka: str, kind: str, group: str, topic: str, **config: object) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        self.consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 200,
                **SETTINGS[kind],
                **settings,
            }
        )
        self.values: list[bytes] = []
        self.changes = 0
        self.consumer.subscribe([topic], on_assign=self._changed, on_revoke=self._changed)

    def _changed(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.changes += bool(partitions)

    def poll(self, seconds: float = 0.05) -> None:
        message = self.consumer.poll(seconds)
        if message is not None and message.error() is None:
            self.values.append(message.value())

    def has(self, count: int) -> bool:
        self.poll()
        return len(self.partitions) == count

    @property
    def partitions(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


def fill(kafka: str, topic: str, count: int) -> set[bytes]:
    """So many messages in each partition. Asking for the topic creates it."""
    producer = Producer({"bootstrap.servers": kafka})
    producer.list_topics(topic, SECONDS_MAX)
    values = set()
    for partition in range(PARTITIONS):
        for number in range(count):
            value = f"{partition}/{number}".encode()
            values.add(value)
            producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS_MAX) == 0
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_goes_on_where_it_was(kafka: str, topic: str, kind: str) -> None:
    values = fill(kafka, topic, 10)
    with closing(Member(kafka, kind, f"g-{topic}", topic)) as first:
        wait_until(lambda: first.poll() or len(first.values) == len(values), "reading everything")
        assert set(first.values) == values
        first.consumer.commit(asynchronous=False)
    fill(kafka, topic, 1)
    with closing(Member(kafka, kind, f"g-{topic}", topic)) as second:
        wait_until(lambda: second.poll() or len(second.values) == PARTITIONS, "reading what is new")


@pytest.mark.parametrize("kind", KINDS)
def test_members_share_and_take_over(kafka: str, topic: str, kind: str) -> None:
    fill(kafka, topic, 1)
    with ExitStack() as stack:
        first = stack.enter_context(closing(Member(kafka, kind, f"g-{topic}", topic)))
        wait_until(lambda: first.has(PARTITIONS), "the first has all")
        second = Member(kafka, kind, f"g-{topic}", topic)

        def shared() -> bool:
            return first.has(PARTITIONS // 2) & second.has(PARTITIONS // 2)

        wait_until(shared, "each has half")
        assert not first.partitions & second.partitions
        second.close()
        wait_until(lambda: first.has(PARTITIONS), "the first has all again")


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_static_member_that_restarts_disturbs_nobody(kafka: str, topic: str, kind: str) -> None:
    fill(kafka, topic, 1)
    with ExitStack() as stack:
        first = stack.enter_context(
            closing(Member(kafka, kind, f"g-{topic}", topic, group_instance_id="one"))
        )
        second = Member(kafka, kind, f"g-{topic}", topic, group_instance_id="two")
        wait_until(lambda: first.has(2) & second.has(2), "each has half")
        changes, had = first.changes, second.partitions
        second.close()
        second = stack.enter_context(
            closing(Member(kafka, kind, f"g-{topic}", topic, group_instance_id="two"))
        )
        wait_until(lambda: first.poll() or second.has(2), "it is back")
        assert second.partitions == had
        for _ in range(10):
            first.poll()
        assert first.changes == changes


@pytest.mark.parametrize("kind", PROTOCOLS)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_of_the_node_disturbs_nobody(
    tmp_path: Path, kind: str, how: signal.Signals
) -> None:
    node = Node(tmp_path / "data", *FLAGS)
    with ExitStack() as stack:
        stack.callback(lambda: node.process.poll() is not None or node.end(signal.SIGKILL))
        fill(node.address, "t", 0)
        first, second = (
            stack.enter_context(closing(Member(node.address, kind, "g", "t"))) for _ in range(2)
        )
        wait_until(lambda: first.has(2) & second.has(2), "each has half")
        fill(node.address, "t", 5)
        members = (first, second)

        def read(count: int) -> bool:
            for one in members:
                one.poll()
            return sum(len(one.values) for one in members) >= count

        wait_until(lambda: read(5 * PARTITIONS), "reading everything")
        for one in members:
            one.consumer.commit(asynchronous=False)
        changes = [one.changes for one in members]
        node = node.restarted(how)
        fill(node.address, "t", 5)
        wait_until(lambda: read(10 * PARTITIONS), "reading what is new")
        assert sum(len(one.values) for one in members) == 10 * PARTITIONS, "nothing twice"
        assert [one.changes for one in members] == changes, "nobody had to join again"
        for one in members:
            one.consumer.commit(asynchronous=False)
        places = [TopicPartition("t", number) for number in range(PARTITIONS)]
        committed = first.consumer.committed(places, timeout=SECONDS_MAX)
        assert [one.offset for one in committed] == [10] * PARTITIONS


def test_a_stop_does_not_wait_for_members(tmp_path: Path) -> None:
    """A stop that waited would take longer than `Node.end` does."""
    flags = (
        *("--group-initial-rebalance-delay-ms", "600000", "--shutdown-grace-ms", "600000"),
        *("--log-level", "warning"),
    )
    with running(tmp_path / "data", *flags) as node:
        fill(node.address, "t", 0)
        with closing(Member(node.address, "classic", "g", "t")) as member:
            admin = AdminClient({"bootstrap.servers": node.address})

            def waits() -> bool:
                member.poll()
                listed = admin.list_consumer_groups().result(SECONDS_MAX).valid
                return [one.state.name for one in listed] == ["PREPARING_REBALANCING"]

            wait_until(waits, "it has joined")
            assert node.end() == 0


def test_a_pattern_takes_topics_in_as_they_come(kafka: str, topic: str) -> None:
    fill(kafka, f"{topic}-a", 1)
    with closing(Member(kafka, "consumer", f"g-{topic}", f"^{topic}-.*")) as member:
        wait_until(lambda: member.has(PARTITIONS), "the first topic")
        fill(kafka, f"{topic}-b", 1)
        fill(kafka, f"other-{topic}-b", 1)

        def both() -> bool:
            member.poll()
            return len(member.consumer.assignment()) == 2 * PARTITIONS

        wait_until(both, "the second topic")
        assert {one.topic for one in member.consumer.assignment()} == {f"{topic}-a", f"{topic}-b"}


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_groups_are_administered(kafka: str, topic: str, kind: str) -> None:
    fill(kafka, topic, 3)
    group = f"g-{topic}"
    admin = AdminClient({"bootstrap.servers": kafka})
    with closing(Member(kafka, kind, group, topic)) as member:
        wait_until(lambda: member.has(PARTITIONS), "all partitions")
        described = admin.describe_consumer_groups([group])[group].result(SECONDS_MAX)
        assert described.state.name == "STABLE"
        (one,) = described.members
        assert len(one.assignment.topic_partitions) == PARTITIONS
        listed = admin.list_consumer_groups().result(SECONDS_MAX).valid
        assert group in {one.group_id for one in listed}
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group])[group].result(SECONDS_MAX)
    places = [TopicPartition(topic, number, 2) for number in range(PARTITIONS)]
    altered = admin.alter_consumer_group_offsets([GroupOffsets(group, places)])
    assert all(one.error is None for one in altered[group].result(SECONDS_MAX).topic_partitions)
    found = admin.list_consumer_group_offsets([GroupOffsets(group)])[group].result(SECONDS_MAX)
    assert sorted((one.partition, one.offset) for one in found.topic_partitions) == [
        (number, 2) for number in range(PARTITIONS)
    ]
    admin.delete_consumer_groups([group])[group].result(SECONDS_MAX)
    listed = admin.list_consumer_groups().result(SECONDS_MAX).valid
    assert group not in {one.group_id for one in listed}
