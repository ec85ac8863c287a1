"""kafka-python in groups: the newest versions of the classic APIs, in threads of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from tests.clients.groups import FLAGS, PARTITIONS, SECONDS_MAX
from tests.clients.node import Node, running
from tests.clients.test_groups_librdkafka import Member as ConsumerMember
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("groups"), *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


def fill(address: str, topic: str, count: int) -> None:
    with closing(KafkaProducer(bootstrap_servers=address, enable_idempotence=False)) as producer:
        sent = [
            producer.send(topic, b"%d/%d" % (partition, number), partition=partition)
            for partition in range(PARTITIONS)
            for number in range(count)
        ]
        for one in sent:
            one.get(SECONDS_MAX)


class Member:
    def __init__(self, address: str, group: str, topic: str, **config: object) -> None:
        settings: dict[str, object] = {
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 100,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "reconnect_backoff_max_ms": 200,
            **config,
        }
        self.consumer = KafkaConsumer(topic, bootstrap_servers=address, group_id=group, **settings)
        # This client, as a group's leader, may assign before it has heard of the topic, and then
        # waits for minutes: where groups form at once, it must know the topic first.
        assert self.consumer.partitions_for_topic(topic)
        self.values: list[bytes] = []

    def poll(self) -> None:
        for records in self.consumer.poll(timeout_ms=50).values():
            self.values += [record.value for record in records]

    def has(self, count: int) -> bool:
        self.poll()
        return len(self.partitions) == count

    @property
    def partitions(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


def test_members_share_commit_and_take_over(kafka: str, topic: str) -> None:
    fill(kafka, topic, 5)
    with ExitStack() as stack:
        first = stack.enter_context(closing(Member(kafka, f"g-{topic}", topic)))
        wait_until(lambda: first.has(PARTITIONS), "the first has all")
        wait_until(
            lambda: first.poll() or len(first.values) == 5 * PARTITIONS, "reading everything"
        )
        first.consumer.commit()
        second = Member(kafka, f"g-{topic}", topic)
        wait_until(lambda: first.has(2) & second.has(2), "each has half")
        assert not first.partitions & second.partitions
        second.close()
        wait_until(lambda: first.has(PARTITIONS), "the first has all again")
        assert len(first.values) == 5 * PARTITIONS, "it went on where it was"


def test_a_static_member_keeps_its_partitions(kafka: str, topic: str) -> None:
    fill(kafka, topic, 1)
    with ExitStack() as stack:
        first = stack.enter_context(
            closing(Member(kafka, f"g-{topic}", topic, group_instance_id="one"))
        )
        second = Member(kafka, f"g-{topic}", topic, group_instance_id="two")
        wait_until(lambda: first.has(2) & second.has(2), "each has half")
        had, generation = second.partitions, generation_of(first)
        second.close()
        second = stack.enter_context(
            closing(Member(kafka, f"g-{topic}", topic, group_instance_id="two"))
        )
        wait_until(lambda: first.poll() or second.has(2), "it is back")
        assert (second.partitions, generation_of(second)) == (had, generation)


def generation_of(member: Member) -> int:
    return int(member.consumer._coordinator.generation_if_stable().generation_id)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_of_the_node(tmp_path: Path, how: signal.Signals) -> None:
    node = Node(tmp_path / "data", *FLAGS)
    with ExitStack() as stack:
        stack.callback(lambda: node.process.poll() is not None or node.end(signal.SIGKILL))
        fill(node.address, "t", 5)
        member = stack.enter_context(closing(Member(node.address, "g", "t")))
        wait_until(lambda: member.poll() or len(member.values) == 5 * PARTITIONS, "reading all")
        member.consumer.commit()
        generation = generation_of(member)
        node = node.restarted(how)
        fill(node.address, "t", 5)
        wait_until(lambda: member.poll() or len(member.values) == 10 * PARTITIONS, "what is new")
        member.consumer.commit()
        assert generation_of(member) == generation


def test_groups_are_administered(kafka: str, topic: str) -> None:
    fill(kafka, topic, 1)
    group = f"g-{topic}"
    with closing(KafkaAdminClient(bootstrap_servers=kafka)) as admin:
        with closing(Member(kafka, group, topic)) as member:
            wait_until(lambda: member.has(PARTITIONS), "all partitions")
            wait_until(lambda: member.poll() or len(member.values) == PARTITIONS, "reading all")
            member.consumer.commit()
        found = admin.list_group_offsets({group: None})[group]
        assert {place.partition: one.offset for place, one in found.items()} == dict.fromkeys(
            range(PARTITIONS), 1
        )
        assert group in {one["group_id"] for one in admin.list_groups()}
        assert admin.describe_groups([group])[group]["group_state"] == "Empty"
        admin.delete_groups([group])
        assert group not in {one["group_id"] for one in admin.list_groups()}


def test_a_member_goes_on_when_the_group_is_upgraded_and_downgraded(kafka: str, topic: str) -> None:
    fill(kafka, topic, 5)
    with closing(Member(kafka, f"g-{topic}", topic)) as first:
        wait_until(lambda: first.has(PARTITIONS), "the first has all")
        wait_until(
            lambda: first.poll() or len(first.values) == 5 * PARTITIONS, "reading everything"
        )
        first.consumer.commit()
        with closing(ConsumerMember(kafka, "consumer", f"g-{topic}", topic)) as new:
            wait_until(lambda: first.has(2) & new.has(2), "each has half")
            assert not first.partitions & new.partitions
            first.consumer.commit()
            assert not new.values, "it went on where the first was"
        wait_until(lambda: first.has(PARTITIONS), "the first has all again")
        assert len(first.values) == 5 * PARTITIONS, "it went on where it was"
