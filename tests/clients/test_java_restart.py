"""The node goes away and comes back; Kafka's Java clients go on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.clients.groups import FLAGS, PARTITIONS
from tests.clients.node import Node
from tests.clients.remote import Remote
from tests.clients.test_java_groups import Member, fill
from tests.clients.test_java_transactions import Transactions, committed, read
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs("java", "javac", "mvn"), pytest.mark.timeout(900)]

HOW = [signal.SIGTERM, signal.SIGKILL]
KINDS = {"classic": {"session_timeout_ms": "60000"}, "consumer": {}}
"""Longer than any restart takes. For the consumer protocol the node says how long, and does so."""

PATIENT = {
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "200",
    # Else, while no broker answers, it forgets all topics and joins anew when they are back.
    "metadata.recovery.strategy": "none",
}


class Restarting:
    """A node that can be replaced, and ends with the test."""

    def __init__(self, data: Path) -> None:
        self.node = Node(data, *FLAGS)

    def restart(self, how: signal.Signals) -> None:
        self.node = self.node.restarted(how)

    def close(self) -> None:
        if self.node.process.poll() is None:
            self.node.end(signal.SIGKILL)


@pytest.fixture
def restarting(tmp_path: Path) -> Iterator[Restarting]:
    with closing(Restarting(tmp_path / "data")) as restarting:
        yield restarting


@pytest.mark.parametrize("how", HOW)
def test_an_idempotent_producer_goes_on_with_its_sequence(
    java: Remote, restarting: Restarting, how: signal.Signals
) -> None:
    limits = {"request.timeout.ms": "10000", "delivery.timeout.ms": "40000"}
    config = {"bootstrap.servers": restarting.node.address, **PATIENT, **limits}
    java.call("producer", name="p", config=config)
    for at in range(0, 300, 100):
        records = [{"partition": 0, "value": str(at + number)} for number in range(100)]
        sent = java.call("send", name="p", topic="t", records=records)
        assert [offset for _, offset, _ in sent] == list(range(at, at + 100))
        restarting.restart(how)
    java.call("close-producer", name="p")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_is_not_disturbed(
    java: Remote, restarting: Restarting, kind: str, how: signal.Signals
) -> None:
    address = restarting.node.address
    fill(java, address, "t", 5)
    patient = {name.replace(".", "_"): value for name, value in PATIENT.items()} | KINDS[kind]
    with ExitStack() as stack:
        members = [
            stack.enter_context(closing(Member(java, address, kind, "t", name, **patient)))
            for name in ("first", "second")
        ]

        def read(count: int) -> bool:
            for one in members:
                one.poll()
            return sum(len(one.values) for one in members) >= count

        def each_has_half() -> bool:
            read(0)
            return [len(one.partitions) for one in members] == [PARTITIONS // 2] * 2

        wait_until(each_has_half, "each has half")
        wait_until(lambda: read(5 * PARTITIONS), "reading everything")
        for one in members:
            one.commit()
        changes = [one.changes for one in members]
        restarting.restart(how)
        fill(java, address, "t", 1)
        wait_until(lambda: read(6 * PARTITIONS), "reading what is new")
        assert [one.changes for one in members] == changes, "nobody had to join again"


@pytest.mark.parametrize("how", HOW)
def test_a_transaction_goes_on_whole_after_the_node_was_away(
    java: Remote, restarting: Restarting, how: signal.Signals
) -> None:
    """The node has stored which partitions and groups it is about before they were answered, and
    what was decided before that was answered."""
    one = Transactions(java, restarting.node.address, "t", config=PATIENT)
    expected = []
    for number in range(2):
        one.begin(f"a{number}")
        restarting.restart(how)
        one.send(f"b{number}")
        one.send_offset("g", number)
        restarting.restart(how)
        one.commit()
        restarting.restart(how)
        expected += [f"a{number}", f"b{number}"]
        one.begin("never")
        restarting.restart(how)
        one.abort()
    one.close()
    assert committed(java, restarting.node.address, "t", "g") == 1
    assert read(java, restarting.node.address, "t", expected[-1], "read_committed") == expected
