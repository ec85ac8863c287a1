"""A group as text and back: docs/formats/groups.md describes it.

It has what a member needs to go on after a restart of the node: its id, its subscription and its
assignment. Requests that waited are not stored: their connections are gone, and clients retry.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import ClassicMember, GroupProtocol
from stratamq.broker.kafka.groups.classic.phases import ClassicState
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.consumer.members import (
    ClassicMemberMetadata,
    ConsumerMember,
    MemberState,
    Partition,
    Partitions,
    Subscriber,
    TopicInfo,
    TopicSubscription,
)
from stratamq.broker.kafka.groups.limits import GroupLimits

Group = ClassicGroup | ConsumerGroup


def dump(group: Group) -> str:
    fields = _classic_group(group) if isinstance(group, ClassicGroup) else _consumer_group(group)
    return json.dumps(fields, separators=(",", ":"))


def load(kind: str, document: str, epoch: int, limits: GroupLimits, now_ms: int) -> Group:
    """The group as its members will find it: each has a whole session to report."""
    fields = json.loads(document)
    if kind == ClassicGroup.kind:
        return _load_classic(fields, epoch, limits, now_ms)
    return _load_consumer(fields, epoch, limits, now_ms)


# -- classic groups --------------------------------------------------------------------------------


_CLASSIC_PLAIN = (
    "member_id",
    "instance_id",
    "client_id",
    "client_host",
    "session_ms",
    "rebalance_ms",
)


def _classic_group(group: ClassicGroup) -> dict[str, Any]:
    return {
        "state": group.state,
        "since_ms": group.since_ms,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.roster.leader,
        "members": [_classic_fields(member) for member in group.roster],
    }


def _classic_fields(member: ClassicMember) -> dict[str, Any]:
    plain = {name: getattr(member, name) for name in _CLASSIC_PLAIN}
    protocols = [[name, _text(metadata)] for name, metadata in member.protocols]
    return {
        **plain,
        "protocols": protocols,
        "assignment": _text(member.assignment),
        "generation": member.generation,
    }


def _load_classic(
    fields: dict[str, Any], epoch: int, limits: GroupLimits, now_ms: int
) -> ClassicGroup:
    group = ClassicGroup(limits, epoch=epoch)
    group.state, group.since_ms = ClassicState(fields["state"]), fields["since_ms"]
    group.protocol_type, group.protocol = fields["protocol_type"], fields["protocol"]
    for one in fields["members"]:
        group.roster.add(_classic_member(one, now_ms))
    group.roster.leader = fields["leader"]
    group.resume(now_ms)
    return group


def _classic_member(fields: dict[str, Any], now_ms: int) -> ClassicMember:
    return ClassicMember(
        **{name: fields[name] for name in _CLASSIC_PLAIN},
        protocols=tuple(GroupProtocol(name, b64decode(text)) for name, text in fields["protocols"]),
        assignment=b64decode(fields["assignment"]),
        deadline_ms=now_ms + fields["session_ms"],
        generation=fields.get("generation"),
    )


# -- consumer groups -------------------------------------------------------------------------------


_CONSUMER_PLAIN = (
    "member_id",
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "rebalance_ms",
    "epoch",
    "previous_epoch",
)


def _consumer_group(group: ConsumerGroup) -> dict[str, Any]:
    return {
        "target_epoch": group.target.epoch,
        "since_ms": group.since_ms,
        "assignor": group.target.assignor,
        "topics": {name: [*info] for name, info in group.target.topics.items()},
        "target": {member: _lists(some) for member, some in group.target.by_member.items()},
        "members": [_consumer_fields(member) for member in group.members.values()],
    }


def _consumer_fields(member: ConsumerMember) -> dict[str, Any]:
    return {
        **{name: getattr(member, name) for name in _CONSUMER_PLAIN},
        "state": member.state,
        "names": sorted(member.wants.names),
        "regex": member.wants.regex,
        "assignor": member.wants.assignor,
        "reader": member.wants.reader,
        "assigned": _lists(member.assigned),
        "revoking": _lists(member.revoking),
        "classic": None
        if member.classic is None
        else {
            "session_ms": member.classic.session_ms,
            "protocols": [[name, _text(data)] for name, data in member.classic.protocols],
        },
    }


def _load_consumer(
    fields: dict[str, Any], epoch: int, limits: GroupLimits, now_ms: int
) -> ConsumerGroup:
    group = ConsumerGroup(limits, epoch=epoch)
    group.since_ms = fields["since_ms"]
    target = group.target
    target.epoch, target.assignor = fields["target_epoch"], fields["assignor"]
    target.topics = {name: TopicInfo(*info) for name, info in fields["topics"].items()}
    target.by_member = {member: _partitions(some) for member, some in fields["target"].items()}
    group.load(now_ms, [_consumer_member(one) for one in fields["members"]])
    return group


def _consumer_member(fields: dict[str, Any]) -> ConsumerMember:
    return ConsumerMember(
        **{name: fields[name] for name in _CONSUMER_PLAIN},
        state=MemberState(fields["state"]),
        wants=TopicSubscription(
            names=frozenset(fields["names"]),
            regex=fields["regex"],
            assignor=fields["assignor"],
            reader=Subscriber(*fields["reader"]) if fields.get("reader") else None,
        ),
        assigned=_partitions(fields["assigned"]),
        revoking=_partitions(fields["revoking"]),
        classic=_classic_side(fields.get("classic")),
    )


def _classic_side(fields: dict[str, Any] | None) -> ClassicMemberMetadata | None:
    """Rows that were written before classic members could be in such a group do not have it."""
    if fields is None:
        return None
    protocols = tuple(GroupProtocol(name, b64decode(text)) for name, text in fields["protocols"])
    return ClassicMemberMetadata(session_ms=fields["session_ms"], protocols=protocols)


def _lists(partitions: Partitions) -> dict[str, list[int]]:
    """Partition numbers by topic id: ids are long."""
    topics: dict[str, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return topics


def _partitions(topics: dict[str, list[int]]) -> Partitions:
    return frozenset(
        Partition(topic_id, number)  # type: ignore[arg-type]
        for topic_id, numbers in topics.items()
        for number in numbers
    )


def _text(data: bytes) -> str:
    return b64encode(data).decode()
