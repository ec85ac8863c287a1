"""Any members doing anything in any order: what must hold in a consumer group all the same."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from stratamq.broker.kafka.groups.consumer.members import Partitions
from stratamq.broker.kafka.groups.document import dump, load
from stratamq.broker.kafka.groups.limits import GROUP_BYTES
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.groups.consumer_support import REBALANCE_MS, Rig, report

NAMES = ["a", "b", "c"]


class Client:
    """Reads what it was given; gives up what it is told to when it gets to it."""

    def __init__(self, member_id: str, instance: str | None, names: frozenset[str]) -> None:
        self.member_id, self.instance, self.names = member_id, instance, names
        self.epoch = 0
        self.reads: Partitions = frozenset()
        self.told: Partitions | None = None


class ConsumerMachine(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(a=3, b=2)
        self.epoch = 0
        self.ids = 0
        self.everyone: list[Client] = []

    # -- what may happen -----------------------------------------------------------------------

    @rule(target=clients, names=st.sets(st.sampled_from(NAMES), min_size=1), static=st.booleans())
    def start(self, names: set[str], static: bool) -> Client:
        self.ids += 1
        client = Client(f"m{self.ids}", f"i{self.ids}" if static else None, frozenset(names))
        self.everyone.append(client)
        self.beat(client)
        return client

    @rule(client=clients, stubborn=st.booleans(), lost=st.booleans())
    def beat(self, client: Client, stubborn: bool = False, lost: bool = False) -> None:
        """A heartbeat, whose answer may get lost. A stubborn client reads on what it should not."""
        if client.told is not None and not stubborn:
            client.reads &= client.told
        joins = client.epoch == 0
        order = self.rig.send(
            report(
                client.member_id,
                client.epoch,
                instance_id=client.instance,
                rebalance_ms=REBALANCE_MS,
                names=client.names,
                owned=frozenset() if joins else client.reads,
            )
        )
        if lost:
            return
        if order.error is not ErrorCode.NONE:
            client.epoch, client.reads, client.told = 0, frozenset(), None
            return
        client.epoch = order.epoch
        if order.assigned is not None:
            client.told = order.assigned
            client.reads |= order.assigned

    @rule(client=consumes(clients), how=st.sampled_from(["leave", "crash"]))
    def end(self, client: Client, how: str) -> None:
        self.everyone.remove(client)
        if how == "leave" and client.epoch > 0:
            self.rig.leave(client.member_id, -1, client.instance)

    @rule(client=clients)
    def come_back(self, client: Client) -> None:
        """A static member restarts; it reads nothing meanwhile."""
        if client.instance is None or client.epoch == 0:
            return
        if self.rig.leave(client.member_id, -2, client.instance).error is ErrorCode.NONE:
            self.ids += 1
            client.member_id = f"m{self.ids}"
        client.epoch, client.reads, client.told = 0, frozenset(), None

    @rule(client=clients, names=st.sets(st.sampled_from(NAMES), min_size=1))
    def resubscribe(self, client: Client, names: set[str]) -> None:
        client.names = frozenset(names)

    @rule(counts=st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4)))
    def change_topics(self, counts: dict[str, int]) -> None:
        grown = {
            name: max(count, info.partitions if (info := self.rig.topics.by_name.get(name)) else 0)
            for name, count in counts.items()
        }
        self.rig.set_topics(**grown)

    @rule(ms=st.sampled_from([1, 5_000, 46_000]))
    def wait(self, ms: int) -> None:
        """Clients notice themselves when a session has passed, and stop reading."""
        self.rig.wait(ms)
        for client in self.everyone:
            if client.member_id not in self.rig.group.members:
                client.epoch, client.reads, client.told = 0, frozenset(), None

    @rule()
    def restart(self) -> None:
        group = self.rig.group
        self.rig.group = load(group.kind, dump(group), group.epoch, group.limits, self.rig.now_ms)

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def the_size_is_that_of_its_members(self) -> None:
        group = self.rig.group
        sizes = [member.size_bytes for member in group.members.values()]
        assert group.size_bytes == GROUP_BYTES + sum(sizes)

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        read = [one for client in self.everyone for one in client.reads]
        assert len(read) == len(set(read))

    @invariant()
    def nobody_holds_what_another_holds(self) -> None:
        held = [one for member in self.rig.group.members.values() for one in member.holds]
        assert len(held) == len(set(held))

    @invariant()
    def epochs_only_grow(self) -> None:
        group = self.rig.group
        assert self.epoch <= group.epoch
        assert group.target.epoch <= group.epoch
        assert all(member.epoch <= group.target.epoch for member in group.members.values())
        self.epoch = group.epoch

    def teardown(self) -> None:
        """Left alone, everyone arrives, and everything that is wanted is read."""
        for _ in range(30):
            for client in self.everyone:
                self.beat(client)
            self.wait(4_000)
        for client in self.everyone:
            self.beat(client)
        group = self.rig.group
        assert group.state == ("Stable" if self.everyone else "Empty")
        wanted = {
            (info.topic_id, number)
            for name, info in self.rig.topics.by_name.items()
            if any(name in client.names for client in self.everyone)
            for number in range(info.partitions)
        }
        assert {tuple(one) for client in self.everyone for one in client.reads} == wanted


TestConsumerMachine = ConsumerMachine.TestCase
TestConsumerMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
