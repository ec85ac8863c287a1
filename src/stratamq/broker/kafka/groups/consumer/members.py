"""Members of a consumer group: what they report, the answers, which partitions they hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from stratamq.broker.kafka.groups.classic.members import GroupProtocol
from stratamq.broker.kafka.groups.limits import GROUP_BYTES, GroupLimit, weight
from stratamq.model.dataclass import dataclass
from stratamq.model.types import TopicId
from stratamq.wire.kafka.protocol import ErrorCode

JOINING = 0
LEAVING = -1
LEAVING_FOR_NOW = -2
"""The epochs by which a member says that it comes, goes, or (static ones) comes back soon."""


class Partition(NamedTuple):
    topic_id: TopicId
    number: int


Partitions = frozenset[Partition]
NOTHING: Partitions = frozenset()


class TopicInfo(NamedTuple):
    topic_id: TopicId
    partitions: int


class Subscriber(NamedTuple):
    """Whose rights decide what a member may see."""

    principal: str
    host: str


@dataclass(frozen=True, slots=True)
class Topics:
    """All topics, and whether a reader may know of one. Both are equal in equal revisions."""

    revision: Hashable
    by_name: Mapping[str, TopicInfo]
    shows: Callable[[Subscriber, str], bool] = lambda reader, name: True


class MemberState(StrEnum):
    """How far a member is on its way to its target."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"  # it has to give up partitions first
    UNRELEASED = "unreleased"  # it waits for partitions that others have to give up


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSubscription:
    """What a member wants. None in a heartbeat means: as before."""

    names: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    reader: Subscriber | None = None
    """Whose rights decide which topics the regex finds. None: of a row that did not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What a member that speaks the classic protocol said when it joined, for as long as it does:
    see `groups.migration`. Its generation is its member epoch."""

    session_ms: int
    protocols: tuple[GroupProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """`assigned` is what it may read; `revoking` is what it may no longer, and still has."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_ms: int = 0
    wants: TopicSubscription = TopicSubscription()
    state: MemberState = MemberState.STABLE
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = NOTHING
    revoking: Partitions = NOTHING
    classic: ClassicMemberMetadata | None = None

    @property
    def size_bytes(self) -> int:
        """The weight of what the member says about itself."""
        said = (self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host)
        protocols = () if self.classic is None else self.classic.protocols
        return weight(
            *said,
            *(self.wants.regex, self.wants.assignor, *self.wants.names),
            *(self.wants.reader or ()),
            *(part for protocol in protocols for part in protocol),
        )

    @property
    def holds(self) -> Partitions:
        """What no other member may be given."""
        return self.assigned | self.revoking


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReport:
    """A heartbeat. None: the same as in the one before."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    reader: Subscriber | None = None
    rebalance_ms: int | None = None
    names: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None

    @property
    def is_full(self) -> bool:
        """A heartbeat with everything in it is answered with everything."""
        wants = self.names is not None or self.regex is not None
        return self.rebalance_ms is not None and wants and self.owned is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """The answer. `assigned` is None when it is as before."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    assigned: Partitions | None = None
    limit: GroupLimit | None = None
    """The limit that the error stands for."""


class Membership:
    """Members by id. `size_bytes` is the weight of all of them.

    Law: a partition has one holder at most.
    """

    def __init__(self) -> None:
        self.members: dict[str, ConsumerMember] = {}
        self.size_bytes = GROUP_BYTES
        self._holders: dict[Partition, str] = {}

    def load(self, members: Iterable[ConsumerMember]) -> None:
        for member in members:
            self.put(member)

    def by_instance(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None:
            return None
        named = (one for one in self.members.values() if one.instance_id == instance_id)
        return next(named, None)

    def is_free_for(self, member_id: str, partition: Partition) -> bool:
        """Whether no other member holds it."""
        return self._holders.get(partition, member_id) == member_id

    def put(self, member: ConsumerMember) -> None:
        """Add the member, or replace it by its new state."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        self.size_bytes += member.size_bytes
        self.members[member.member_id] = member
        self._holders |= dict.fromkeys(member.holds, member.member_id)

    def remove(self, member_id: str) -> None:
        self._release(self.members.pop(member_id))

    def _release(self, member: ConsumerMember) -> None:
        self.size_bytes -= member.size_bytes
        for partition in member.holds:
            if self._holders.get(partition) == member.member_id:
                del self._holders[partition]
