"""A member of a consumer group, what it reports and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from enum import StrEnum
from typing import NamedTuple

from stratamq.broker.kafka.groups.classic.members import Protocol
from stratamq.broker.kafka.groups.limits import Limit, weight
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


class Reader(NamedTuple):
    """Who a member is to those who decide what it may see."""

    principal: str
    host: str


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics there are, and whether a reader may know of one. Equal revisions mean that both
    are equal."""

    revision: Hashable
    by_name: Mapping[str, TopicInfo]
    shows: Callable[[Reader, str], bool] = lambda reader, name: True


class MemberState(StrEnum):
    """How far a member is on its way to its target."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"  # it has to give up partitions first
    UNRELEASED = "unreleased"  # it waits for partitions that others have to give up


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants. None in a heartbeat means: as before."""

    names: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    reader: Reader | None = None
    """Whose rights decide which topics the regex finds. None: of a row that did not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classic:
    """What a member that speaks the classic protocol said when it joined, for as long as it does:
    see `groups.migration`. Its generation is its member epoch."""

    session_ms: int
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """`assigned` is what it may read; `revoking` is what it may no longer, and still has."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_ms: int = 0
    wants: Subscription = Subscription()
    state: MemberState = MemberState.STABLE
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = NOTHING
    revoking: Partitions = NOTHING
    classic: Classic | None = None

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
        """What nobody else may be given."""
        return self.assigned | self.revoking


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A heartbeat. None: as in the one before."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    reader: Reader | None = None
    rebalance_ms: int | None = None
    names: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None

    @property
    def is_full(self) -> bool:
        """It tells everything anew, so everything is told to it."""
        wants = self.names is not None or self.regex is not None
        return self.rebalance_ms is not None and wants and self.owned is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The answer. `assigned` is None when it is as before."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    assigned: Partitions | None = None
    limit: Limit | None = None
    """The limit that the error stands for."""
