"""A member of a classic group, what it asks and what it is told."""

from __future__ import annotations

from typing import Any, NamedTuple

from stratamq.broker.kafka.groups.limits import Limit, weight
from stratamq.model.dataclass import dataclass
from stratamq.wire.kafka.protocol import ErrorCode

Ticket = Any
"""Whatever the caller wants to find its waiting request by. It comes back with the reply."""

NO_GENERATION = -1


class Protocol(NamedTuple):
    """A way to assign that a member knows, and what it tells the leader about itself."""

    name: str
    metadata: bytes


class Identity(NamedTuple):
    """Who a member says it is."""

    member_id: str
    instance_id: str | None = None
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCall:
    """A JoinGroup request. `new_id` is the member's id, should it be given one."""

    member_id: str
    instance_id: str | None
    new_id: str
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    id_required: bool = True
    """Version 4 and later: joins only with an id that it was given before."""
    skips_assignment: bool = True
    """Version 9 and later: a leader can be told to leave the assignment alone."""

    @property
    def size_bytes(self) -> int:
        """What the group has to remember of this member."""
        said = (self.member_id or self.new_id, self.instance_id, self.client_id, self.client_host)
        return weight(*said) + sum(weight(*one) for one in self.protocols)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncCall:
    who: Identity
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False
    limit: Limit | None = None
    """The limit that the error stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""
    limit: Limit | None = None


Reply = JoinReply | SyncReply


@dataclass(slots=True, kw_only=True)
class Member:
    """`joining` and `syncing` are the tickets of requests that wait for an answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    deadline_ms: int = 0
    is_new: bool = False
    joining: Ticket | None = None
    syncing: Ticket | None = None
    generation: int | None = None
    """Of a member of a group that was a consumer group: the one it has until it rejoins."""
    counted_bytes: int = 0
    """What the roster counts for this member."""

    @property
    def size_bytes(self) -> int:
        said = (self.member_id, self.instance_id, self.client_id, self.client_host)
        return weight(*said, self.assignment) + sum(weight(*one) for one in self.protocols)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    def silent(self, now_ms: int) -> bool:
        """Whether it may be taken for dead. Who waits for an answer need not say more."""
        waits = not self.is_new and (self.joining is not None or self.syncing is not None)
        return not waits and now_ms >= self.deadline_ms

    def heard(self, now_ms: int) -> None:
        self.deadline_ms = now_ms + self.session_ms

    def metadata(self, protocol: str | None) -> bytes:
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")
