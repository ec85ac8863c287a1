"""Groups that change their protocol while clients of both kinds are in them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.groups import FLAGS, PARTITIONS, SECONDS_MAX
from tests.clients.node import Node, running
from tests.clients.test_groups_librdkafka import Member, fill
from tests.waiting import wait_until

CLASSIC = ["classic", "cooperative"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("groups"), *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


def type_of(kafka: str, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": kafka})
    listed = admin.list_consumer_groups().result(SECONDS_MAX).valid
    (found,) = (one for one in listed if one.group_id == group)
    return str(found.type.name)


def apart(*members: Member) -> bool:
    """Whether every partition has one reader, and every member some."""
    for one in members:
        one.poll()
    numbers = [number for one in members for number in one.partitions]
    return sorted(numbers) == list(range(PARTITIONS)) and all(one.partitions for one in members)


@pytest.mark.parametrize("kind", CLASSIC)
def test_the_first_new_member_upgrades_a_group_and_the_last_one_downgrades_it(
    kafka: str, topic: str, kind: str
) -> None:
    fill(kafka, topic, 1)
    group = f"g-{topic}"
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(closing(Member(kafka, kind, group, topic))) for _ in range(2)
        )
        wait_until(lambda: apart(first, second), "two classic members share")
        assert type_of(kafka, group) == "CLASSIC"
        new = Member(kafka, "consumer", group, topic)
        wait_until(lambda: apart(first, second, new), "three members of both kinds share")
        assert type_of(kafka, group) == "CONSUMER"
        fourth = stack.enter_context(closing(Member(kafka, kind, group, topic)))
        wait_until(lambda: apart(first, second, new, fourth), "a classic member joins late")
        new.close()
        wait_until(lambda: apart(first, second, fourth), "classic members share what is left")
        assert type_of(kafka, group) == "CLASSIC"


def test_a_static_member_changes_its_protocol_and_disturbs_nobody(kafka: str, topic: str) -> None:
    fill(kafka, topic, 1)
    group = f"g-{topic}"
    with ExitStack() as stack:
        stays = stack.enter_context(
            closing(Member(kafka, "consumer", group, topic, group_instance_id="one"))
        )
        comes = Member(kafka, "classic", group, topic, group_instance_id="two")
        wait_until(lambda: apart(stays, comes), "each has half")
        changes, had = stays.changes, comes.partitions
        for kind in ("consumer", "classic", "consumer"):
            comes.close()
            back = comes = Member(kafka, kind, group, topic, group_instance_id="two")
            wait_until(
                lambda back=back: stays.poll() or back.has(len(had)), f"it is back as {kind}"
            )
            assert back.partitions == had
        stack.enter_context(closing(comes))
        for _ in range(10):
            stays.poll()
        assert stays.changes == changes


# -- under load ------------------------------------------------------------------------------------


class Ledger:
    """What was written, read and committed. A record that was committed is not read again."""

    def __init__(self) -> None:
        self.written = 0
        self.read: set[tuple[int, int]] = set()
        self.twice = 0
        self.committed = dict.fromkeys(range(PARTITIONS), 0)

    def take(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert offset >= self.committed[partition], "it was committed before"
        self.twice += (partition, offset) in self.read
        self.read.add((partition, offset))

    def commit(self, message: Message) -> None:
        done = max(self.committed[message.partition()], message.offset() + 1)
        self.committed[message.partition()] = done


class Worker(Member):
    """Commits each record after it was read. A commit that fails has to be read again."""

    def __init__(self, ledger: Ledger, kafka: str, kind: str, topic: str) -> None:
        self.ledger = ledger
        short = {} if kind == "consumer" else {"session_timeout_ms": 2000}
        super().__init__(kafka, kind, "g", topic, **short)

    def poll(self, seconds: float = 0.01) -> None:
        message = self.consumer.poll(seconds)
        if message is None or message.error() is not None:
            return
        self.ledger.take(message)
        try:
            self.consumer.commit(message, asynchronous=False)
        except KafkaException:
            return
        self.ledger.commit(message)


class Load:
    """Writes records until it is stopped."""

    def __init__(self, kafka: str, topic: str, ledger: Ledger) -> None:
        self._producer = Producer({"bootstrap.servers": kafka, "linger.ms": 2})
        self._producer.list_topics(topic, SECONDS_MAX)
        self._topic, self._ledger = topic, ledger
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while not self._stop.wait(0.1):
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, b"v", partition=partition)
                self._ledger.written += 1
            self._producer.poll(0)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(SECONDS_MAX) == 0


@pytest.mark.parametrize("kind", CLASSIC)
@pytest.mark.timeout(300)
def test_a_rolling_upgrade_and_back_under_load_loses_nothing(tmp_path: Path, kind: str) -> None:
    """Three members are replaced one by one, up and down again; the node is killed half-way."""
    node = Node(tmp_path / "data", *FLAGS)
    ledger = Ledger()
    with ExitStack() as stack:
        stack.callback(lambda: node.process.poll() is not None or node.end(signal.SIGKILL))
        members = [Worker(ledger, node.address, kind, "t") for _ in range(3)]
        stack.callback(lambda: [one.close() for one in members])
        with Load(node.address, "t", ledger):
            wait_until(lambda: apart(*members), "classic members share")
            for number, wanted in enumerate(["consumer"] * 3 + [kind] * 3):
                members.pop(0).close()
                members.append(Worker(ledger, node.address, wanted, "t"))
                if number in (0, 4):  # a group of both kinds
                    node = node.restarted(signal.SIGKILL)
                before = len(ledger.read)
                wait_until(
                    lambda before=before: apart(*members) and len(ledger.read) > before,
                    f"step {number}: all share and read on",
                )
                expected = "CLASSIC" if number == 5 else "CONSUMER"
                assert type_of(node.address, "g") == expected

        def all_read() -> bool:
            for one in members:
                one.poll()
            return len(ledger.read) == ledger.written

        wait_until(all_read, "everything was read")
        assert committed(node.address) == ledger.committed
        assert ledger.twice <= PARTITIONS * 8, "a record each, of those that read it before"


def committed(kafka: str) -> dict[int, int]:
    with closing(Consumer({"bootstrap.servers": kafka, "group.id": "g"})) as consumer:
        places = [TopicPartition("t", number) for number in range(PARTITIONS)]
        found = consumer.committed(places, timeout=SECONDS_MAX)
        return {one.partition: one.offset for one in found}
