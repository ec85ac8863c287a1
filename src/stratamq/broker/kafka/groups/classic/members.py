"""Members of a classic group: what they ask and what they are answered, who is in the group, and
which protocol its members have in common."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from stratamq.broker.kafka.groups.limits import GROUP_BYTES, GroupLimit, weight
from stratamq.model.dataclass import dataclass
from stratamq.wire.kafka.protocol import ErrorCode

Ticket = Any
"""The caller's own key for a request that waits. It comes back with the reply."""

NO_GENERATION = -1


class GroupProtocol(NamedTuple):
    """An assignment protocol that a member knows, and the metadata it sends to the leader."""

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
    protocols: tuple[GroupProtocol, ...]
    id_required: bool = True
    """Version 4 and later: joins only with an id that it was given before."""
    skips_assignment: bool = True
    """Version 9 and later: the answer can say that the leader must not assign."""

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
    limit: GroupLimit | None = None
    """The limit that the error stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""
    limit: GroupLimit | None = None


GroupReply = JoinReply | SyncReply


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """`joining` and `syncing` are the tickets of requests that wait for an answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: tuple[GroupProtocol, ...]
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

    def silent(self, now_ms: int) -> bool:
        """Whether its session is over. It lasts while the member waits for an answer."""
        waits = not self.is_new and (self.joining is not None or self.syncing is not None)
        return not waits and now_ms >= self.deadline_ms

    def heard(self, now_ms: int) -> None:
        self.deadline_ms = now_ms + self.session_ms

    def metadata(self, protocol: str | None) -> bytes:
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")


class Voter(typing.Protocol):
    """A member, as far as protocols go."""

    @property
    def protocols(self) -> tuple[GroupProtocol, ...]: ...


def common(members: Iterable[Voter]) -> set[str]:
    """The names that every member knows."""
    sets = [{one.name for one in member.protocols} for member in members]
    return set.intersection(*sets) if sets else set()


def selected(members: Collection[Voter]) -> str:
    """Each member votes for the first of its own that all know; the earliest wins a tie."""
    candidates = common(members)
    votes = Counter(
        next(one.name for one in member.protocols if one.name in candidates) for member in members
    )
    return votes.most_common(1)[0][0]


def fits(members: Collection[Voter], protocols: tuple[GroupProtocol, ...]) -> bool:
    """Whether a member that knows these protocols can join them."""
    names = {one.name for one in protocols}
    return bool(names & common(members)) if members else bool(names)


class ClassicRoster:
    """Members in the order they came. The leader is one of them while there are any.

    `size_bytes` is the weight of all of it. A member that was changed has to be counted again.
    """

    def __init__(self) -> None:
        self.leader: str | None = None
        self.pending: dict[str, int] = {}
        """Ids that were given out and not used yet, with the time until which they hold."""
        self.size_bytes = GROUP_BYTES
        self._members: dict[str, ClassicMember] = {}
        self._instances: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(list(self._members.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._members[member_id]

    def get(self, member_id: str) -> ClassicMember | None:
        return self._members.get(member_id)

    def by_instance(self, instance_id: str | None) -> ClassicMember | None:
        member_id = self._instances.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self._members[member_id]

    def check(self, who: Identity) -> ErrorCode:
        """Whether the group has this member, under this instance id if it names one."""
        if who.instance_id is not None:
            holder = self.by_instance(who.instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder.member_id != who.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if who.member_id in self else ErrorCode.UNKNOWN_MEMBER_ID

    def reserve(self, member_id: str, until_ms: int) -> None:
        """Give out an id that holds until then."""
        self.pending[member_id] = until_ms
        self.size_bytes += weight(member_id)

    def release(self, member_id: str) -> None:
        """An id that was given out is used, or will not be."""
        if self.pending.pop(member_id, None) is not None:
            self.size_bytes -= weight(member_id)

    def add(self, member: ClassicMember) -> None:
        self._members[member.member_id] = member
        self.release(member.member_id)
        self.count(member)
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def count(self, member: ClassicMember) -> None:
        self.size_bytes += member.size_bytes - member.counted_bytes
        member.counted_bytes = member.size_bytes

    def remove(self, member: ClassicMember) -> None:
        del self._members[member.member_id]
        self.size_bytes -= member.counted_bytes
        if member.instance_id is not None:
            self._instances.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self._members), None)

    def rename(self, member: ClassicMember, new_id: str) -> None:
        """A static member came back: the same member under a new id."""
        assert member.instance_id is not None, "only static members come back"
        if self.leader == member.member_id:
            self.leader = new_id
        self._members = {
            new_id if key == member.member_id else key: one for key, one in self._members.items()
        }
        self._instances[member.instance_id] = new_id
        member.member_id = new_id
        self.count(member)
