"""Drives a group of any kind by hand: classic and consumer clients, stored and loaded as a node
would, with topics and a clock that are plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from stratamq.broker.kafka.groups import document, migration
from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import (
    GroupProtocol,
    GroupReply,
    Identity,
    JoinCall,
    JoinReply,
    SyncCall,
    SyncReply,
)
from stratamq.broker.kafka.groups.consumer.classic_members import read_assignment
from stratamq.broker.kafka.groups.consumer.members import (
    HeartbeatReply,
    HeartbeatReport,
    Partition,
    TopicInfo,
    Topics,
)
from stratamq.broker.kafka.groups.limits import GroupLimits
from stratamq.model.types import TopicId
from stratamq.wire.kafka.protocol import ErrorCode, encode_embedded
from stratamq.wire.kafka.protocol.messages.groups import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    MemberTopicPartitions,
)

SESSION_MS = 10_000
REBALANCE_MS = 30_000
Place = tuple[str, int]
"""A topic's name and a partition's number."""


def by_topic(places: Collection[Place]) -> list[MemberTopicPartitions]:
    names = sorted({name for name, _ in places})
    return [
        MemberTopicPartitions(topic=name, partitions=sorted(n for one, n in places if one == name))
        for name in names
    ]


def subscription(names: Collection[str], owned: Collection[Place] = ()) -> bytes:
    said = ConsumerProtocolSubscription(topics=sorted(names), owned_partitions=by_topic(owned))
    return encode_embedded(said, 3)


def assignment(places: Collection[Place]) -> bytes:
    return encode_embedded(ConsumerProtocolAssignment(assigned_partitions=by_topic(places)), 3)


class Mixed:
    """`group` is what a coordinator would have now, `stored` what it would find after a crash."""

    def __init__(self, limits: GroupLimits | None = None, **topics: int) -> None:
        self.limits = limits or GroupLimits(initial_delay_ms=0, members_max=100)
        self.group: migration.Group = ClassicGroup(self.limits)
        self.stored: tuple[str, int, str] | None = None
        self.now_ms = 1_000
        self.answers: dict[str, GroupReply] = {}
        self.topics = Topics(0, {})
        self.set_topics(**topics)
        self._tickets = 0

    def set_topics(self, **topics: int) -> None:
        infos = {
            name: TopicInfo(TopicId((name + "0" * 32)[:32]), count)
            for name, count in topics.items()
        }
        self.topics = Topics(self.topics.revision + 1, infos)

    # -- as `GroupState` does it-----------------------------------------------------------------

    def settle(self) -> None:
        self.group = migration.settled(self.group, self.now_ms)
        if self.group.changed:
            dump = document.dump(self.group)
            assert self.stored is None or self.group.epoch >= self.stored[1], "epochs only grow"
            self.stored = (self.group.kind, self.group.epoch, dump)
            self.group.changed = False
        replies, self.group.replies = self.group.replies, []
        for ticket, reply in replies:
            assert ticket not in self.answers, "answered twice"
            self.answers[ticket] = reply

    def crash(self) -> None:
        """What was stored is loaded; requests that waited are lost."""
        self.answers.clear()
        if self.stored is None:
            self.group = ClassicGroup(self.limits)
            return
        kind, epoch, dump = self.stored
        self.group = document.load(kind, dump, epoch, self.limits, self.now_ms)

    def wait(self, ms: int) -> None:
        end, ticks = self.now_ms + ms, 0
        while (due := self.group.next_ms()) is not None and due <= end:
            ticks += 1
            assert ticks < 1_000, "what is due at a time is done then"
            self.now_ms = max(self.now_ms, due)
            self.group.tick(self.now_ms)
            self.settle()
        self.now_ms = end

    def ticket(self) -> str:
        self._tickets += 1
        return f"ticket {self._tickets}"

    # -- classic members -----------------------------------------------------------------------

    def ask_to_join(
        self,
        member_id: str = "",
        *,
        names: Collection[str] = ("a",),
        owned: Collection[Place] = (),
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        **more: Any,
    ) -> str:
        """The ticket under which the answer is, or will be, in `answers`."""
        ticket = self.ticket()
        metadata = more.get("metadata", subscription(names, owned))
        call = JoinCall(
            member_id=member_id,
            instance_id=instance,
            new_id=more.get("new_id", f"classic of {ticket}"),
            client_id="c",
            client_host="/h",
            session_ms=more.get("session_ms", SESSION_MS),
            rebalance_ms=REBALANCE_MS,
            protocol_type=more.get("protocol_type", "consumer"),
            protocols=tuple(GroupProtocol(name, metadata) for name in protocols),
            id_required=more.get("id_required", False),
        )
        self.group = migration.joined_by_classic(self.group, self.now_ms)
        migration.classic_side(self.group, self.topics).join(self.now_ms, call, ticket)
        self.settle()
        return ticket

    def join(self, member_id: str = "", **more: Any) -> JoinReply:
        reply = self.answers[self.ask_to_join(member_id, **more)]
        assert isinstance(reply, JoinReply)
        return reply

    def ask_to_sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        instance: str | None = None,
        protocol: str | None = None,
    ) -> str:
        ticket = self.ticket()
        call = SyncCall(
            who=Identity(member_id, instance, generation),
            protocol_type=None if protocol is None else "consumer",
            protocol=protocol,
            assignments=dict(assignments or {}),
        )
        migration.classic_side(self.group, self.topics).sync(self.now_ms, call, ticket)
        self.settle()
        return ticket

    def sync(self, member_id: str, generation: int, **more: Any) -> SyncReply:
        reply = self.answers[self.ask_to_sync(member_id, generation, **more)]
        assert isinstance(reply, SyncReply)
        return reply

    def places(self, reply: SyncReply) -> set[Place]:
        """What a SyncGroup's answer assigns."""
        assert reply.error is ErrorCode.NONE
        return self.named(read_assignment(reply.assignment, self.topics.by_name))

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        side = migration.classic_side(self.group, self.topics)
        error = side.heartbeat(self.now_ms, Identity(member_id, instance, generation))
        self.settle()
        return error

    def leave(self, member_id: str, instance: str | None = None) -> ErrorCode:
        side = migration.classic_side(self.group, self.topics)
        error = side.leave(self.now_ms, Identity(member_id, instance))
        self.settle()
        return error

    def stable(self, *members: str, **owned: Collection[Place]) -> int:
        """A stable classic group of these members, each with the places given under its name."""
        for member in members:
            self.ask_to_join(new_id=member)
        for member in members:
            self.ask_to_join(member)
        group = self.group
        assert isinstance(group, ClassicGroup)
        given = {member: assignment(owned.get(member, ())) for member in members}
        for member in sorted(members, key=lambda one: one == group.roster.leader):
            self.ask_to_sync(member, group.epoch, given)
        assert group.state == "Stable"
        return group.epoch

    # -- consumer members ----------------------------------------------------------------------

    def beat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatReply:
        joins = epoch == 0
        owned = fields.pop("owned", () if joins else None)
        names = fields.pop("names", ("a",) if joins else None)
        report = HeartbeatReport(
            member_id=member_id,
            epoch=epoch,
            rebalance_ms=REBALANCE_MS if joins else None,
            names=None if names is None else frozenset(names),
            owned=None if owned is None else self.ids(owned),
            **fields,
        )
        self.group, order = migration.consumer_heartbeat(
            self.group, self.now_ms, report, self.topics
        )
        self.settle()
        return order

    # -- names ---------------------------------------------------------------------------------

    def named(self, partitions: Collection[Partition]) -> set[Place]:
        names = {info.topic_id: name for name, info in self.topics.by_name.items()}
        return {(names[one.topic_id], one.number) for one in partitions if one.topic_id in names}

    def ids(self, places: Collection[Place]) -> frozenset[Partition]:
        infos = self.topics.by_name
        return frozenset(Partition(infos[name].topic_id, n) for name, n in places if name in infos)
