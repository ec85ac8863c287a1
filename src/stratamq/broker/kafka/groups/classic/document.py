"""A classic group as text and back: docs/formats/groups.md describes it.

What is kept is what a member needs to go on after a restart of the node: its id, its place, its
assignment. Requests that waited are not: their connections are gone, the clients ask again.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import Member, Protocol
from stratamq.broker.kafka.groups.classic.states import State
from stratamq.broker.kafka.groups.limits import GroupLimits

_PLAIN = ("member_id", "instance_id", "client_id", "client_host", "session_ms", "rebalance_ms")


def dump(group: ClassicGroup) -> str:
    fields = {
        "state": group.state,
        "since_ms": group.since_ms,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.roster.leader,
        "members": [_member_fields(member) for member in group.roster],
    }
    return json.dumps(fields, separators=(",", ":"))


def _member_fields(member: Member) -> dict[str, Any]:
    plain = {name: getattr(member, name) for name in _PLAIN}
    protocols = [[name, _text(metadata)] for name, metadata in member.protocols]
    return {
        **plain,
        "protocols": protocols,
        "assignment": _text(member.assignment),
        "generation": member.generation,
    }


def load(document: str, epoch: int, limits: GroupLimits, now_ms: int) -> ClassicGroup:
    """The group as its members will find it: each has a whole session to report."""
    fields = json.loads(document)
    group = ClassicGroup(limits, epoch=epoch)
    group.state, group.since_ms = State(fields["state"]), fields["since_ms"]
    group.protocol_type, group.protocol = fields["protocol_type"], fields["protocol"]
    for one in fields["members"]:
        group.roster.add(_member(one, now_ms))
    group.roster.leader = fields["leader"]
    group.resume(now_ms)
    return group


def _member(fields: dict[str, Any], now_ms: int) -> Member:
    return Member(
        **{name: fields[name] for name in _PLAIN},
        protocols=tuple(Protocol(name, b64decode(text)) for name, text in fields["protocols"]),
        assignment=b64decode(fields["assignment"]),
        deadline_ms=now_ms + fields["session_ms"],
        generation=fields.get("generation"),
    )


def _text(data: bytes) -> str:
    return b64encode(data).decode()
