"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members to a consumer group.

The same calls as those of `ClassicGroup`, so that the API need not know which kind a group is. What
they do is in the table of `groups.migration`. A classic member is led to its target by being asked
to rejoin: each JoinGroup is a step of `reconcile`, SyncGroup fetches what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from stratamq.broker.kafka.groups.classic.members import (
    ClassicMember,
    GroupProtocol,
    Identity,
    JoinCall,
    JoinReply,
    SyncCall,
    SyncReply,
    Ticket,
    fits,
)
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.consumer.members import (
    ClassicMemberMetadata,
    ConsumerMember,
    MemberState,
    Partition,
    Partitions,
    TopicInfo,
    Topics,
    TopicSubscription,
)
from stratamq.wire.kafka.protocol import ErrorCode, ProtocolError, decode_embedded, encode_embedded
from stratamq.wire.kafka.protocol.messages.groups import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    MemberTopicPartitions,
)
from stratamq.wire.kafka.protocol.schema import message_of

CONSUMER = "consumer"
"""The protocol type of consumers. Connect and others have their own, which is not ours to read."""

LAST_VERSION = message_of(ConsumerProtocolAssignment).versions.last

TopicInfos = Mapping[str, TopicInfo]


class EmbeddedSubscription(NamedTuple):
    names: frozenset[str]
    owned: Partitions
    rack_id: str | None


def read_subscription(
    protocols: tuple[GroupProtocol, ...], topics: TopicInfos
) -> EmbeddedSubscription:
    """A client says the same under each of its protocols. ProtocolError when it is not readable."""
    _, said = decode_embedded(ConsumerProtocolSubscription, protocols[0].metadata)
    return EmbeddedSubscription(
        names=frozenset(said.topics),
        owned=_existing(said.owned_partitions, topics),
        rack_id=said.rack_id,
    )


def read_assignment(assignment: bytes, topics: TopicInfos) -> Partitions:
    """Partitions of topics that exist; none where nothing was assigned yet."""
    if not assignment:
        return frozenset()
    _, said = decode_embedded(ConsumerProtocolAssignment, assignment)
    return _existing(said.assigned_partitions, topics)


def write_assignment(
    partitions: Partitions, topics: TopicInfos, protocols: tuple[GroupProtocol, ...]
) -> bytes:
    """In the version in which the member that has these protocols subscribes."""
    version = min(int.from_bytes(protocols[0].metadata[:2], "big"), LAST_VERSION)
    names = {info.topic_id: name for name, info in topics.items()}
    numbers: dict[str, list[int]] = {}
    for topic_id, number in sorted(partitions):
        if topic_id in names:
            numbers.setdefault(names[topic_id], []).append(number)
    assigned = [MemberTopicPartitions(topic=one, partitions=some) for one, some in numbers.items()]
    return encode_embedded(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def _existing(said: Iterable[MemberTopicPartitions], topics: TopicInfos) -> Partitions:
    return frozenset(
        Partition(topics[one.topic].topic_id, number)
        for one in said
        if one.topic in topics
        for number in one.partitions
        if 0 <= number < topics[one.topic].partitions
    )


class ClassicMembers:
    def __init__(self, group: ConsumerGroup, topics: Topics) -> None:
        self._group = group
        self._topics = topics

    # -- join ----------------------------------------------------------------------------------

    def join(self, now_ms: int, call: JoinCall, ticket: Ticket) -> None:
        self._group.replies.append((ticket, self._joined(now_ms, call)))

    def _joined(self, now_ms: int, call: JoinCall) -> JoinReply:
        error = self._join_error(call)
        if error is not ErrorCode.NONE:
            return JoinReply(error=error, member_id=call.member_id)
        try:
            said = read_subscription(call.protocols, self._topics.by_name)
        except ProtocolError:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            return JoinReply(error=error, member_id=call.member_id)
        member_id = call.member_id or call.new_id
        group = self._group
        known = group.membership.by_instance(call.instance_id) or group.members.get(member_id)
        limit = group.limit_reached(
            known, _updated(known or ConsumerMember(member_id=member_id), call, said)
        )
        if limit is not None:
            return JoinReply(error=limit.error, member_id=call.member_id, limit=limit)
        if call.member_id == "" and call.instance_id is None and call.id_required:
            return JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        before = group.admit(member_id, call.instance_id)
        member = _updated(before, call, said)
        member = group.advance(now_ms, before, member, said.owned, self._topics)
        group.expect_nothing(member)
        group.expect(now_ms, member)  # to fetch its assignment
        return JoinReply(
            member_id=member.member_id,
            generation=member.epoch,
            protocol_type=CONSUMER,
            protocol=call.protocols[0].name,
        )

    def _join_error(self, call: JoinCall) -> ErrorCode:
        group = self._group
        if group.is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not group.limits.session_ms_min <= call.session_ms <= group.limits.session_ms_max:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        others = [
            one.classic
            for one in group.members.values()
            if one.classic is not None and one.member_id != call.member_id
        ]
        if call.protocol_type != CONSUMER or not fits(others, call.protocols):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if call.instance_id is None or call.member_id == "":
            return ErrorCode.NONE
        return self._identity_error(Identity(call.member_id, call.instance_id))

    # -- sync ----------------------------------------------------------------------------------

    def sync(self, now_ms: int, call: SyncCall, ticket: Ticket) -> None:
        self._group.replies.append((ticket, self._synced(now_ms, call)))

    def _synced(self, now_ms: int, call: SyncCall) -> SyncReply:
        error = self._member_error(call.who)
        if error is not ErrorCode.NONE:
            return SyncReply(error=error)
        group, member = self._group, self._group.members[call.who.member_id]
        assert member.classic is not None, "else it was refused"
        first = member.classic.protocols[0].name
        if call.protocol_type not in (None, CONSUMER) or call.protocol not in (None, first):
            return SyncReply(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        group.heard(now_ms, member)
        group.expect_nothing(member)
        revokes = member.state is MemberState.UNREVOKED
        if revokes or group.epoch > member.epoch:
            group.expect(now_ms, member)  # to rejoin
        if group.epoch > member.epoch and not revokes:
            return SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS)
        protocols = member.classic.protocols
        return SyncReply(
            protocol_type=CONSUMER,
            protocol=first,
            assignment=write_assignment(member.assigned, group.target.topics, protocols),
        )

    # -- heartbeat and leave -------------------------------------------------------------------

    def heartbeat(self, now_ms: int, who: Identity) -> ErrorCode:
        error = self._member_error(who)
        if error is not ErrorCode.NONE:
            return error
        group, member = self._group, self._group.members[who.member_id]
        group.heard(now_ms, member)
        group.look_at(self._topics)
        free = member.state is MemberState.UNRELEASED and not group.waits_for_others(member)
        if group.epoch == member.epoch and member.state is not MemberState.UNREVOKED and not free:
            return ErrorCode.NONE
        group.expect(now_ms, member)  # to rejoin
        return ErrorCode.REBALANCE_IN_PROGRESS

    def leave(self, now_ms: int, who: Identity) -> ErrorCode:
        """By member id, or by instance id alone as an administrator does."""
        holder = self._group.membership.by_instance(who.instance_id)
        member_id = holder.member_id if holder is not None and not who.member_id else who.member_id
        error = self._identity_error(Identity(member_id, who.instance_id))
        if error is ErrorCode.NONE and self._group.members[member_id].classic is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is ErrorCode.NONE:
            self._group.remove(now_ms, member_id)
        return error

    def _member_error(self, who: Identity) -> ErrorCode:
        error = self._identity_error(who)
        if error is not ErrorCode.NONE:
            return error
        member = self._group.members[who.member_id]
        if member.classic is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        known = who.generation == member.epoch
        return ErrorCode.NONE if known else ErrorCode.ILLEGAL_GENERATION

    def _identity_error(self, who: Identity) -> ErrorCode:
        """Whether the group has this member, under this instance id if it names one."""
        if self._group.is_dead:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if who.instance_id is not None:
            holder = self._group.membership.by_instance(who.instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder.member_id != who.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        known = who.member_id in self._group.members
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID


def _updated(member: ConsumerMember, call: JoinCall, said: EmbeddedSubscription) -> ConsumerMember:
    return replace(
        member,
        instance_id=member.instance_id if call.instance_id is None else call.instance_id,
        rack_id=said.rack_id,
        client_id=call.client_id,
        client_host=call.client_host,
        rebalance_ms=call.rebalance_ms,
        wants=TopicSubscription(names=said.names),
        classic=ClassicMemberMetadata(session_ms=call.session_ms, protocols=call.protocols),
    )


def rejoining(member: ClassicMember) -> JoinCall:
    """The JoinGroup with which a member of a classic group would join again."""
    return JoinCall(
        member_id=member.member_id,
        instance_id=member.instance_id,
        new_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_ms=member.session_ms,
        rebalance_ms=member.rebalance_ms,
        protocol_type=CONSUMER,
        protocols=member.protocols,
    )
