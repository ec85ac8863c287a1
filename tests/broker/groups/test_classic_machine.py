"""Any members doing anything in any order: what must hold in a classic group all the same."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from stratamq.broker.kafka.groups.classic.members import JoinReply, SyncReply
from stratamq.broker.kafka.groups.classic.phases import ClassicState
from stratamq.broker.kafka.groups.document import dump, load
from stratamq.broker.kafka.groups.limits import GROUP_BYTES, weight
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.groups.classic_support import Driver

PARTITIONS = 3


class Client:
    """A client as far as a coordinator can see one. It does what it is told."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.owned: bytes | None = None
        self.waits_for: str | None = None


class ClassicMachine(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(delay_ms=500)
        self.generation = 0
        self.tickets = 0
        self.started = 0
        self.given: dict[int, dict[str, bytes]] = {}
        self.everyone: list[Client] = []

    # -- what may happen -----------------------------------------------------------------------

    @rule(target=clients, static=st.booleans())
    def start(self, static: bool) -> Client:
        self.started += 1
        number = self.started
        client = Client(f"c{number}", f"i{number}" if static else None)
        self.everyone.append(client)
        self.join(client)
        return client

    @rule(client=clients)
    def act(self, client: Client) -> None:
        """The next thing a working client would do."""
        self.hear(client)
        if client.waits_for is not None:
            return
        if client.owned is None:
            self.join(client)
            return
        error = self.driver.heartbeat(client.member_id, client.generation, client.instance)
        if error is not ErrorCode.NONE:
            client.owned = None
            if error is not ErrorCode.REBALANCE_IN_PROGRESS:
                client.member_id = ""
            self.join(client)

    @rule(client=consumes(clients), politely=st.booleans())
    def end(self, client: Client, politely: bool) -> None:
        self.everyone.remove(client)
        if politely and client.member_id:
            self.driver.leave(client.member_id, client.instance)

    @rule(ms=st.sampled_from([1, 400, 5_000, 11_000, 61_000]))
    def wait(self, ms: int) -> None:
        self.driver.wait(ms)

    @rule()
    def restart(self) -> None:
        """What is stored is what was last told; requests that waited are lost."""
        group = self.driver.group
        if group.state is ClassicState.PREPARING:
            return
        self.driver.group = load(
            group.kind, dump(group), group.epoch, group.limits, self.driver.now_ms
        )
        for client in self.everyone:
            self.hear(client)
            if client.waits_for is not None:
                client.waits_for, client.owned = None, None

    # -- what clients do -----------------------------------------------------------------------

    def join(self, client: Client) -> None:
        client.waits_for = self.new_ticket()
        reply = self.driver.join(
            client.member_id, ticket=client.waits_for, instance=client.instance, version=9
        )
        if reply is not None:
            self.joined(client, reply)

    def joined(self, client: Client, reply: JoinReply) -> None:
        client.waits_for = None
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
            self.join(client)
        elif reply.error is not ErrorCode.NONE:
            client.member_id = ""
        else:
            client.member_id, client.generation = reply.member_id, reply.generation
            self.sync(client, reply)

    def sync(self, client: Client, joined: JoinReply) -> None:
        shares: dict[str, bytes] = {}
        if joined.leader == client.member_id and not joined.skip_assignment:
            ids = [one.member_id for one in joined.members]
            shares = {
                one: bytes(p for p in range(PARTITIONS) if p % len(ids) == place)
                for place, one in enumerate(ids)
            }
        ticket = client.waits_for = self.new_ticket()
        reply = self.driver.sync(client.member_id, client.generation, shares, ticket=ticket)
        if reply is not None:
            self.synced(client, reply)

    def synced(self, client: Client, reply: SyncReply) -> None:
        client.waits_for = None
        client.owned = reply.assignment if reply.error is ErrorCode.NONE else None
        if reply.error is ErrorCode.NONE:
            self.check_given(client, reply.assignment)

    def new_ticket(self) -> str:
        self.tickets += 1
        return f"request {self.tickets}"

    def hear(self, client: Client) -> None:
        """Take the answer it waits for, if it has come."""
        while self.driver.answers.get(client.waits_for or ""):
            reply: Any = self.driver.late(client.waits_for or "")
            if isinstance(reply, JoinReply):
                self.joined(client, reply)
            else:
                self.synced(client, reply)

    # -- what must hold ------------------------------------------------------------------------

    def check_given(self, client: Client, assignment: bytes) -> None:
        given = self.given.setdefault(client.generation, {})
        given[client.instance or client.name] = assignment
        owned = [partition for one in given.values() for partition in one]
        assert len(owned) == len(set(owned)), f"read twice in {client.generation}: {given}"

    @invariant()
    def the_size_is_that_of_its_members(self) -> None:
        roster = self.driver.group.roster
        sizes = [one.size_bytes for one in roster] + [weight(one) for one in roster.pending]
        assert roster.size_bytes == GROUP_BYTES + sum(sizes)

    @invariant()
    def generations_only_grow(self) -> None:
        assert self.driver.group.epoch >= self.generation
        self.generation = self.driver.group.epoch

    @invariant()
    def the_leader_is_a_member(self) -> None:
        roster = self.driver.group.roster
        assert (roster.leader in roster) if len(roster) else roster.leader is None

    @invariant()
    def an_empty_group_has_no_members(self) -> None:
        group = self.driver.group
        assert (group.state is ClassicState.EMPTY) == (len(group.roster) == 0) or (
            group.state is ClassicState.PREPARING
        )

    def teardown(self) -> None:
        """Left alone, every client that is there gets its share."""
        for _ in range(60):
            for client in self.everyone:
                self.act(client)
            self.driver.wait(3_000)
        group = self.driver.group
        assert all(client.owned is not None for client in self.everyone)
        assert group.state is (ClassicState.STABLE if self.everyone else ClassicState.EMPTY)
        shares = sorted(partition for one in self.everyone for partition in one.owned or b"")
        assert shares == (list(range(PARTITIONS)) if self.everyone else [])


TestClassicMachine = ClassicMachine.TestCase
TestClassicMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
