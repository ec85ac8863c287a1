"""Apache Kafka's Java client in groups, with the classic and with the consumer protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.clients.groups import FLAGS, PARTITIONS
from tests.clients.node import Node, running
from tests.clients.remote import Remote
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs("java", "javac", "mvn"), pytest.mark.timeout(900)]

EAGER = "org.apache.kafka.clients.consumer.RangeAssignor"
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
CLASSIC = {
    "group.protocol": "classic",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "100",
}
KINDS = {
    "classic": CLASSIC | {"partition.assignment.strategy": EAGER},
    "cooperative": CLASSIC | {"partition.assignment.strategy": COOPERATIVE},
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("groups"), *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


class Member:
    """A consumer in a group that keeps what it read."""

    def __init__(
        self, java: Remote, kafka: str, kind: str, topic: str, name: str, **config: str
    ) -> None:
        self.java, self.name = java, f"{topic}-{name}"
        self.values: list[str] = []
        settings = {
            "bootstrap.servers": kafka,
            "group.id": f"g-{topic}",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": "50",
            **KINDS[kind],
            **{each.replace("_", "."): value for each, value in config.items()},
        }
        java.call("consumer", name=self.name, config=settings)
        java.call("subscribe", name=self.name, topic=topic)

    def poll(self) -> None:
        self.values += [one["value"] for one in self.java.call("poll", name=self.name, ms=50)]

    def has(self, count: int) -> bool:
        self.poll()
        return len(self.partitions) == count

    @property
    def partitions(self) -> set[int]:
        return {partition for _, partition in self.java.call("assignment", name=self.name)}

    @property
    def changes(self) -> int:
        return int(self.java.call("changes", name=self.name))

    def commit(self) -> None:
        self.java.call("commit-sync", name=self.name)

    def close(self) -> None:
        self.java.call("close-consumer", name=self.name)


def fill(java: Remote, kafka: str, topic: str, count: int) -> set[str]:
    """So many messages in each partition. Asking for the topic creates it."""
    java.call(
        "producer",
        name="filler",
        config={"bootstrap.servers": kafka},
    )
    records = [
        {"partition": partition, "value": f"{partition}/{number}"}
        for partition in range(PARTITIONS)
        for number in range(count)
    ]
    java.call("send", name="filler", topic=topic, records=records)
    java.call("close-producer", name="filler")
    return {str(record["value"]) for record in records}


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_goes_on_where_it_was(java: Remote, kafka: str, topic: str, kind: str) -> None:
    values = fill(java, kafka, topic, 10)
    with closing(Member(java, kafka, kind, topic, "first")) as first:
        wait_until(lambda: first.poll() or len(first.values) == len(values), "reading everything")
        assert set(first.values) == values
        first.commit()
    fill(java, kafka, topic, 1)
    with closing(Member(java, kafka, kind, topic, "second")) as second:
        wait_until(lambda: second.poll() or len(second.values) == PARTITIONS, "reading what is new")
        committed = java.call(
            "committed", name=second.name, topic=topic, partitions=list(range(PARTITIONS))
        )
        assert committed == {str(number): 10 for number in range(PARTITIONS)}


@pytest.mark.parametrize("kind", KINDS)
def test_members_share_and_take_over(java: Remote, kafka: str, topic: str, kind: str) -> None:
    fill(java, kafka, topic, 1)
    with closing(Member(java, kafka, kind, topic, "first")) as first:
        wait_until(lambda: first.has(PARTITIONS), "the first has all")
        second = Member(java, kafka, kind, topic, "second")

        def shared() -> bool:
            return first.has(PARTITIONS // 2) & second.has(PARTITIONS // 2)

        wait_until(shared, "each has half")
        assert not first.partitions & second.partitions
        second.close()
        wait_until(lambda: first.has(PARTITIONS), "the first has all again")


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_static_member_that_restarts_disturbs_nobody(
    java: Remote, kafka: str, topic: str, kind: str
) -> None:
    fill(java, kafka, topic, 1)
    with ExitStack() as stack:
        first = stack.enter_context(
            closing(Member(java, kafka, kind, topic, "first", group_instance_id="one"))
        )
        second = Member(java, kafka, kind, topic, "second", group_instance_id="two")
        wait_until(lambda: first.has(2) & second.has(2), "each has half")
        changes, had = first.changes, second.partitions
        second.close()
        second = stack.enter_context(
            closing(Member(java, kafka, kind, topic, "second", group_instance_id="two"))
        )
        wait_until(lambda: first.poll() or second.has(2), "it is back")
        assert second.partitions == had
        for _ in range(10):
            first.poll()
        assert first.changes == changes


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_a_group_is_described(java: Remote, kafka: str, topic: str, kind: str) -> None:
    fill(java, kafka, topic, 1)
    with closing(Member(java, kafka, kind, topic, "one")) as member:
        wait_until(lambda: member.has(PARTITIONS), "all partitions")
        found = java.call("describe-group", group=f"g-{topic}", config={"bootstrap.servers": kafka})
        assert found == {"state": "Stable", "type": kind.title(), "members": 1}


@pytest.mark.parametrize("kind", ["classic", "cooperative"])
def test_members_of_both_protocols_share_a_group(
    java: Remote, kafka: str, topic: str, kind: str
) -> None:
    """The first member of the new protocol upgrades the group, the last one downgrades it."""
    values = fill(java, kafka, topic, 5)
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(closing(Member(java, kafka, kind, topic, name)))
            for name in ("first", "second")
        )
        wait_until(lambda: first.has(2) & second.has(2), "classic members share")
        new = Member(java, kafka, "consumer", topic, "new")

        def shared(*members: Member) -> bool:
            for one in members:
                one.poll()
            read = [number for one in members for number in one.partitions]
            return sorted(read) == list(range(PARTITIONS)) and all(
                one.partitions for one in members
            )

        wait_until(lambda: shared(first, second, new), "members of both kinds share")
        described = {"group": f"g-{topic}", "config": {"bootstrap.servers": kafka}}
        assert java.call("describe-group", **described)["type"] == "Consumer"
        for one in (first, second, new):
            one.commit()
        late = stack.enter_context(closing(Member(java, kafka, kind, topic, "late")))
        wait_until(lambda: shared(first, second, new, late), "a classic member joins late")
        new.close()
        wait_until(lambda: shared(first, second, late), "classic members share what is left")
        assert java.call("describe-group", **described)["type"] == "Classic"
        assert {value for one in (first, second, new, late) for value in one.values} == values
