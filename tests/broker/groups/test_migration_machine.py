"""Clients of both protocols doing anything in any order: what must hold in a group all the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

import pytest

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import GroupProtocol, JoinReply, SyncReply
from stratamq.broker.kafka.groups.consumer.classic_members import read_subscription
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.groups.migration_support import Mixed, Place, assignment

NAMES = ["a", "b"]
SEEDS = 60
NONE, REJOIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


class Client:
    """What it reads now. It does what it is asked to, when it gets to it."""

    def __init__(self, mixed: Mixed, instance: str | None, names: Collection[str]) -> None:
        self.mixed, self.instance, self.names = mixed, instance, frozenset(names)
        self.member_id = ""
        self.reads: set[Place] = set()
        self.is_fenced = False

    def act(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        raise NotImplementedError

    def disconnected(self) -> None:
        """The node crashed: requests that waited will not be answered."""

    def expired(self) -> None:
        """A session has passed without a heartbeat: clients notice that themselves."""
        raise NotImplementedError


class ConsumerClient(Client):
    made = 0

    def __init__(self, mixed: Mixed, instance: str | None, names: Collection[str]) -> None:
        super().__init__(mixed, instance, names)
        ConsumerClient.made += 1
        self.member_id = f"consumer {ConsumerClient.made}"
        self.epoch = 0

    def act(self) -> None:
        joins = self.epoch == 0
        order = self.mixed.beat(
            self.member_id,
            self.epoch,
            instance_id=self.instance,
            names=self.names if joins else None,
            owned=() if joins else self.reads,
        )
        if order.error is ErrorCode.FENCED_INSTANCE_ID:
            self.is_fenced = True
        if order.error is not NONE:
            self.expired()
            return
        self.epoch = order.epoch
        if order.assigned is not None:
            self.reads = self.mixed.named(order.assigned)

    def leave(self) -> None:
        if self.epoch > 0:
            epoch = -1 if self.instance is None else -2
            self.mixed.beat(self.member_id, epoch, instance_id=self.instance)

    def expired(self) -> None:
        self.epoch, self.reads = 0, set()


class ClassicClient(Client):
    cooperates = False

    def __init__(self, mixed: Mixed, instance: str | None, names: Collection[str]) -> None:
        super().__init__(mixed, instance, names)
        self.generation = -1
        self.next = "join"
        self.ticket: str | None = None
        self.assigns: dict[str, bytes] = {}
        self.watches: int | None = None

    def act(self) -> None:
        if self.ticket is None:
            getattr(self, f"_{self.next}")()
        reply = self.mixed.answers.pop(self.ticket, None) if self.ticket is not None else None
        if reply is None:
            return
        self.ticket = None
        if isinstance(reply, JoinReply):
            self._joined(reply)
        else:
            self._synced(reply)

    def _join(self) -> None:
        if not self.cooperates:
            self.reads = set()
        self.ticket = self.mixed.ask_to_join(
            self.member_id,
            names=self.names,
            owned=self.reads,
            instance=self.instance,
            protocols=("cooperative" if self.cooperates else "range",),
            id_required=True,
        )

    def _joined(self, reply: JoinReply) -> None:
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error is NONE:
            self.member_id, self.generation = reply.member_id, reply.generation
            leads = reply.leader == reply.member_id
            self.assigns = self._assign(reply) if leads else {}
            seen = -1 if reply.skip_assignment else self.mixed.topics.revision
            self.watches = seen if leads else None
            self.next = "sync"
        else:
            self._failed(reply.error)

    def _sync(self) -> None:
        self.ticket = self.mixed.ask_to_sync(
            self.member_id, self.generation, self.assigns, self.instance
        )

    def _synced(self, reply: SyncReply) -> None:
        if reply.error is not NONE:
            self._failed(reply.error)
            return
        assigned = self.mixed.places(reply)
        self.next = "join" if self.reads - assigned else "beat"
        self.reads = assigned

    def _beat(self) -> None:
        """A leader sees to it that topics that grew are assigned."""
        if self.watches not in (None, self.mixed.topics.revision):
            self.next = "join"
            return
        error = self.mixed.heartbeat(self.member_id, self.generation, self.instance)
        if error is not NONE:
            self._failed(error)

    def _failed(self, error: ErrorCode) -> None:
        self.next = "join"
        if error is not REJOIN:
            self.reads, self.generation = set(), -1
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        self.is_fenced = error is ErrorCode.FENCED_INSTANCE_ID

    def _assign(self, reply: JoinReply) -> dict[str, bytes]:
        """As the leader: in turns. What another member owns comes with the next rebalance."""
        said = {
            one.member_id: read_subscription(
                (GroupProtocol("", one.metadata),), self.mixed.topics.by_name
            )
            for one in reply.members
        }
        given: dict[str, set[Place]] = {member: set() for member in said}
        for name, info in self.mixed.topics.by_name.items():
            readers = sorted(member for member, one in said.items() if name in one.names)
            for number in range(info.partitions if readers else 0):
                place, member = (name, number), readers[number % len(readers)]
                owners = [one for one, its in said.items() if place in self.mixed.named(its.owned)]
                if owners in ([], [member]):
                    given[member].add(place)
        return {member: assignment(places) for member, places in given.items()}

    def leave(self) -> None:
        if self.instance is None and self.member_id:
            self.mixed.leave(self.member_id)

    def disconnected(self) -> None:
        self.ticket = None

    def expired(self) -> None:
        self.reads, self.generation, self.member_id, self.next = set(), -1, "", "join"


class CooperativeClient(ClassicClient):
    cooperates = True


class Walk:
    """Random steps of a few clients. Most of what is interesting happens to a group at rest, and to
    one in the middle of a rebalance, so both come often."""

    def __init__(self, seed: int, classic: type[ClassicClient]) -> None:
        self.random = random.Random(seed)
        self.classic = classic
        self.mixed = Mixed(a=3, b=2)
        self.everyone: list[Client] = []
        self.started = 0
        self.steps: list[tuple[Callable[[], None], int]] = [
            (self.act, 60),
            (self.start, 6),
            (self.end, 4),
            (self.migrate, 8),
            (self.settle, 8),
            (self.crash, 6),
            (self.wait, 5),
            (self.grow_topics, 3),
        ]

    def go(self, count: int) -> None:
        steps, weights = zip(*self.steps, strict=True)
        self.start()
        for step in self.random.choices(steps, weights, k=count):
            step()
            self.check()

    # -- what may happen -----------------------------------------------------------------------

    def start(self) -> None:
        self.started += 1
        instance = f"i{self.started}" if self.random.random() < 0.4 else None
        names = self.random.choice((["a"], ["a", "b"], ["b"]))
        if len(self.everyone) < 5:
            self._start(self.random.random() < 0.5, instance, names)

    def _start(self, new: bool, instance: str | None, names: Collection[str]) -> None:
        client = (ConsumerClient if new else self.classic)(self.mixed, instance, names)
        self.everyone.append(client)
        client.act()

    def act(self) -> None:
        if self.everyone:
            self.random.choice(self.everyone).act()

    def end(self) -> None:
        if self.everyone:
            client = self.random.choice(self.everyone)
            self.everyone.remove(client)
            if self.random.random() < 0.7:
                client.leave()

    def migrate(self) -> None:
        """A rolling restart: the same client again, perhaps with the other protocol."""
        if self.everyone:
            client = self.everyone[0]
            self.everyone.remove(client)
            if self.random.random() < 0.7:
                client.leave()
            self._start(self.random.random() < 0.5, client.instance, client.names)

    def crash(self) -> None:
        self.mixed.crash()
        for client in self.everyone:
            client.disconnected()

    def wait(self) -> None:
        self.mixed.wait(self.random.choice((1, 2_000, 11_000, 31_000, 46_000)))
        for client in self.everyone:
            if client.member_id not in self._members():
                client.expired()

    def grow_topics(self) -> None:
        counts = {name: info.partitions for name, info in self.mixed.topics.by_name.items()}
        counts[self.random.choice(NAMES)] += 1
        self.mixed.set_topics(**counts)

    def settle(self) -> None:
        """Everybody does what it is asked to until nothing moves: then the group is at rest, unless
        a member is gone and has not expired yet."""
        live = [one for one in self.everyone if not one.is_fenced]
        for number in range(60):
            for client in live:
                client.act()
            self.mixed.wait(100)
            if number == 30:
                gone = set(self._members()) - {one.member_id for one in live}
        if live and not gone:
            self.check_rest(live)

    def _members(self) -> Collection[str]:
        group = self.mixed.group
        if isinstance(group, ClassicGroup):
            return {one.member_id for one in group.roster} | group.roster.pending.keys()
        return group.members.keys()

    # -- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        read = [place for client in self.everyone for place in client.reads]
        assert len(read) == len(set(read)), "nobody reads what another reads"

    def check_rest(self, live: list[Client]) -> None:
        assert {one.member_id for one in live} == set(self._members()), "everybody is in"
        assert self.mixed.group.state == "Stable"
        wanted = {name for one in live for name in one.names}
        infos = self.mixed.topics.by_name
        read = {place for one in live for place in one.reads}
        assert read == {(name, n) for name in wanted for n in range(infos[name].partitions)}
        new = any(isinstance(one, ConsumerClient) for one in live)
        assert self.mixed.group.kind == ("consumer" if new else "classic")


@pytest.mark.parametrize("classic", [ClassicClient, CooperativeClient])
@pytest.mark.parametrize("start", range(0, SEEDS, 10))
def test_whatever_clients_of_both_protocols_do(start: int, classic: type[ClassicClient]) -> None:
    for seed in range(start, start + 10):
        Walk(seed, classic).go(60)
