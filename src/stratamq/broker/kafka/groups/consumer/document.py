"""A consumer group as text and back: docs/formats/groups.md describes it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from stratamq.broker.kafka.groups.classic.members import Protocol
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.consumer.members import (
    Classic,
    Member,
    MemberState,
    Partition,
    Partitions,
    Reader,
    Subscription,
    TopicInfo,
)
from stratamq.broker.kafka.groups.limits import GroupLimits

_PLAIN = (
    "member_id",
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "rebalance_ms",
    "epoch",
    "previous_epoch",
)


def dump(group: ConsumerGroup) -> str:
    fields = {
        "target_epoch": group.target.epoch,
        "since_ms": group.since_ms,
        "assignor": group.target.assignor,
        "topics": {name: [*info] for name, info in group.target.topics.items()},
        "target": {member: _lists(some) for member, some in group.target.by_member.items()},
        "members": [_member_fields(member) for member in group.members.values()],
    }
    return json.dumps(fields, separators=(",", ":"))


def _member_fields(member: Member) -> dict[str, Any]:
    return {
        **{name: getattr(member, name) for name in _PLAIN},
        "state": member.state,
        "names": sorted(member.wants.names),
        "regex": member.wants.regex,
        "assignor": member.wants.assignor,
        "reader": member.wants.reader,
        "assigned": _lists(member.assigned),
        "revoking": _lists(member.revoking),
        "classic": None if member.classic is None else _classic_fields(member.classic),
    }


def _classic_fields(classic: Classic) -> dict[str, Any]:
    protocols = [[name, b64encode(data).decode()] for name, data in classic.protocols]
    return {"session_ms": classic.session_ms, "protocols": protocols}


def load(document: str, epoch: int, limits: GroupLimits, now_ms: int) -> ConsumerGroup:
    fields = json.loads(document)
    group = ConsumerGroup(limits, epoch=epoch)
    group.since_ms = fields["since_ms"]
    target = group.target
    target.epoch, target.assignor = fields["target_epoch"], fields["assignor"]
    target.topics = {name: TopicInfo(*info) for name, info in fields["topics"].items()}
    target.by_member = {member: _partitions(some) for member, some in fields["target"].items()}
    group.load(now_ms, [_member(one) for one in fields["members"]])
    return group


def _member(fields: dict[str, Any]) -> Member:
    return Member(
        **{name: fields[name] for name in _PLAIN},
        state=MemberState(fields["state"]),
        wants=Subscription(
            names=frozenset(fields["names"]),
            regex=fields["regex"],
            assignor=fields["assignor"],
            reader=Reader(*fields["reader"]) if fields.get("reader") else None,
        ),
        assigned=_partitions(fields["assigned"]),
        revoking=_partitions(fields["revoking"]),
        classic=_classic(fields.get("classic")),
    )


def _classic(fields: dict[str, Any] | None) -> Classic | None:
    """Rows that were written before classic members could be in such a group do not have it."""
    if fields is None:
        return None
    protocols = tuple(Protocol(name, b64decode(text)) for name, text in fields["protocols"])
    return Classic(session_ms=fields["session_ms"], protocols=protocols)


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
