"""A group that changes its protocol while members are in it (KIP-848), in both directions.

`group.consumer.migration.policy` says which directions are allowed: `upgrade`, `downgrade`,
`bidirectional` or `disabled`.

Upgrade: the first member that speaks the consumer protocol joins a classic group of consumers.
    The classic members become members of a consumer group with what they have, at the generation
    they are at; JoinGroup requests that wait are answered out of the new group, SyncGroup requests
    that wait get REBALANCE_IN_PROGRESS. The server's assignor decides from then on. Refused
    (GROUP_ID_NOT_FOUND, with the reason): the policy forbids it, the members are no consumers, or
    what they say about themselves cannot be read.

Downgrade: no member is left that speaks the consumer protocol, and classic members are.
    They become members of a classic group that rebalances at once. Each may go on with the
    generation it has until it rejoins, so that it can commit what it has read before.

Neither loses offsets, which are the group's under any protocol, or changes a member's id. Both are
stored before a reply leaves, in one row: after a crash a group is the one or the other.

Which request of which member does what, by the kind of the group:

request             member    classic group               consumer group
------------------  --------  --------------------------  ------------------------------------------
JoinGroup           classic   waits for the others        answered at once, never as the leader: a
                                                          step of the member towards its target
SyncGroup           classic   waits for the leader        what the member may read now
Heartbeat           classic   REBALANCE_IN_PROGRESS       REBALANCE_IN_PROGRESS if it has to rejoin:
                              while the group prepares    the group's epoch is newer, the member has
                                                          to give up partitions, or those that it
                                                          waits for are free now
LeaveGroup          classic   the group rebalances        a new epoch
OffsetCommit        classic   in its generation           in its member epoch, by any version of the
                                                          API; else ILLEGAL_GENERATION
ConsumerGroup-      consumer  epoch 0: upgrade            as in any consumer group
Heartbeat                     else: GROUP_ID_NOT_FOUND
OffsetCommit        consumer  UNKNOWN_MEMBER_ID           in its member epoch, version 9 or later
the last one        consumer                              downgrade where the policy allows it; else
leaves or expires                                         classic members go on in this group

A static member may come back under the other protocol: it replaces the one before, whose requests
are fenced, and nothing moves. (Two consumer-protocol members cannot: the first has to
leave before, else UNRELEASED_INSTANCE_ID.) Eager members own nothing when they rejoin and get their
whole target that is free. Cooperative ones give up first what is not theirs any more.

Unlike Kafka, a downgrade always rebalances, also if a static classic member replaces the last one
of the consumer protocol: only a rebalance makes one of the members the leader that watches topics.
"""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import ClassicMember, SyncReply
from stratamq.broker.kafka.groups.classic.phases import ClassicState
from stratamq.broker.kafka.groups.consumer.classic_members import (
    CONSUMER,
    ClassicMembers,
    read_assignment,
    read_subscription,
    rejoining,
    write_assignment,
)
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.consumer.members import (
    JOINING,
    NOTHING,
    ClassicMemberMetadata,
    ConsumerMember,
    HeartbeatReply,
    HeartbeatReport,
    Partitions,
    TopicInfo,
    Topics,
    TopicSubscription,
)
from stratamq.wire.kafka.protocol import ErrorCode, ProtocolError

Group = ClassicGroup | ConsumerGroup
ClassicSide = ClassicGroup | ClassicMembers
"""Both take the calls of classic members."""


class CannotUpgrade(Exception):
    """A classic group has to stay one; the text says why."""


def consumer_heartbeat(
    group: Group, now_ms: int, report: HeartbeatReport, topics: Topics
) -> tuple[Group, HeartbeatReply]:
    """What a member of the consumer protocol says, to a group of any kind: the group that it is
    afterwards, and the answer."""
    if isinstance(group, ConsumerGroup):
        leaves = report.epoch < JOINING
        reply = group.leave(now_ms, report) if leaves else group.heartbeat(now_ms, report, topics)
        return group, reply
    if group.is_dead:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return group, HeartbeatReply(error=error, message=error.text, member_id=report.member_id)
    if report.epoch != JOINING:
        return group, no_group(report)
    try:
        upgraded_group = upgraded(group, topics, now_ms)
    except CannotUpgrade as reason:
        return group, no_group(report, f"The group stays a classic group: {reason}")
    reply = upgraded_group.heartbeat(now_ms, report, topics)
    if reply.error is not ErrorCode.NONE:
        return group, reply
    _hand_over(group, upgraded_group, topics, now_ms)
    return upgraded_group, reply


def no_group(
    report: HeartbeatReport, text: str = "There is no such consumer group."
) -> HeartbeatReply:
    return HeartbeatReply(
        error=ErrorCode.GROUP_ID_NOT_FOUND, message=text, member_id=report.member_id
    )


def joined_by_classic(group: Group, now_ms: int) -> Group:
    """The group that a classic member is about to join: an empty one speaks its protocol, and its
    epoch goes on."""
    if isinstance(group, ConsumerGroup) and group.state == "Empty":
        return ClassicGroup(group.limits, epoch=group.epoch, now_ms=now_ms)
    return group


def classic_side(group: Group, topics: Topics) -> ClassicSide:
    return group if isinstance(group, ClassicGroup) else ClassicMembers(group, topics)


def settled(group: Group, now_ms: int) -> Group:
    """The group after a request or a time-out, downgraded if that is due."""
    if isinstance(group, ClassicGroup) or not group.limits.downgrades:
        return group
    members = group.members.values()
    only_classic = bool(members) and all(one.classic is not None for one in members)
    return downgraded(group, now_ms) if only_classic else group


# -- upgrade ---------------------------------------------------------------------------------------


def upgraded(group: ClassicGroup, topics: Topics, now_ms: int) -> ConsumerGroup:
    """A consumer group with the members of the classic one, which is left as it is: a join that is
    refused changes nothing. CannotUpgrade where it is not allowed or not possible."""
    upgraded_group = ConsumerGroup(group.limits, epoch=group.epoch, now_ms=now_ms)
    if group.state is ClassicState.EMPTY:
        return upgraded_group
    if not group.limits.upgrades:
        raise CannotUpgrade("group.consumer.migration.policy forbids an upgrade.")
    if group.protocol_type != CONSUMER:
        raise CannotUpgrade(f"its members speak {group.protocol_type!r}.")
    taken: Partitions = NOTHING
    members = []
    try:
        for one in group.roster:
            epoch = group.epoch if one.generation is None else one.generation
            member = _upgraded_member(one, epoch, taken, topics.by_name)
            taken |= member.assigned
            members.append(member)
    except ProtocolError:
        raise CannotUpgrade("a subscription or an assignment in it is malformed.") from None
    upgraded_group.load(now_ms, members)
    limit = group.limits.reached_by(group.size_bytes, upgraded_group.size_bytes - group.size_bytes)
    if limit is not None:  # names take more memory than what they were read from
        raise CannotUpgrade(f"{limit} is reached.")
    upgraded_group.target.by_member = {member.member_id: member.assigned for member in members}
    return upgraded_group


def _upgraded_member(
    member: ClassicMember, epoch: int, taken: Partitions, topics: Mapping[str, TopicInfo]
) -> ConsumerMember:
    """`taken` is what other members have: a leader may have assigned a partition twice."""
    said = read_subscription(member.protocols, topics)
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=said.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_ms=member.rebalance_ms,
        wants=TopicSubscription(names=said.names),
        epoch=epoch,
        previous_epoch=epoch,
        assigned=read_assignment(member.assignment, topics) - taken,
        classic=ClassicMemberMetadata(session_ms=member.session_ms, protocols=member.protocols),
    )


def _hand_over(group: ClassicGroup, to: ConsumerGroup, topics: Topics, now_ms: int) -> None:
    """Answer the requests that wait in a classic group out of the one that it became."""
    members = ClassicMembers(to, topics)
    to.replies += group.replies
    for one in group.roster:
        if one.joining is not None:
            members.join(now_ms, rejoining(one), one.joining)
        if one.syncing is not None:
            to.replies.append((one.syncing, SyncReply(error=ErrorCode.REBALANCE_IN_PROGRESS)))


# -- downgrade -------------------------------------------------------------------------------------


def downgraded(group: ConsumerGroup, now_ms: int) -> ClassicGroup:
    classic_group = ClassicGroup(group.limits, epoch=group.epoch, now_ms=now_ms)
    classic_group.protocol_type, classic_group.state = CONSUMER, ClassicState.STABLE
    for one in group.members.values():
        assert one.classic is not None, "the caller has checked it"
        classic_group.roster.add(_downgraded_member(one, one.classic, group.target.topics, now_ms))
    classic_group.replies, classic_group.changed = group.replies, True
    classic_group.rebalance(now_ms)
    return classic_group


def _downgraded_member(
    member: ConsumerMember,
    classic: ClassicMemberMetadata,
    topics: Mapping[str, TopicInfo],
    now_ms: int,
) -> ClassicMember:
    """The assignment is what no other member may have yet, should the group be upgraded again."""
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_ms=classic.session_ms,
        rebalance_ms=member.rebalance_ms,
        protocols=classic.protocols,
        assignment=write_assignment(member.holds, topics, classic.protocols),
        deadline_ms=now_ms + classic.session_ms,
        generation=member.epoch,
    )
