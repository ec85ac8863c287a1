"""What an operator may choose about groups, and how much clients may make a node remember of them.

What members say about themselves (ids, protocols with their metadata, topic names) and what leaders
assign to them is in memory and in the Meta Service, so all of it is counted:

limit                       of what                        over it
--------------------------  -----------------------------  -----------------------------------------
group.member.bytes.max      one member                     JoinGroup gets MESSAGE_TOO_LARGE,
                                                           ConsumerGroupHeartbeat INVALID_REQUEST
group.assignment.bytes.max  a leader's assignment of one   SyncGroup gets MESSAGE_TOO_LARGE, and the
                            member                         group rebalances
group.max.size              members of a group             GROUP_MAX_SIZE_REACHED
group.bytes.max             members of a group, and ids    GROUP_MAX_SIZE_REACHED
                            that wait to be used
groups.bytes.max            all groups of the node         COORDINATOR_NOT_AVAILABLE: clients retry
                                                           until it fits

librdkafka, kafka-python, aiokafka and the Java client pass MESSAGE_TOO_LARGE, INVALID_REQUEST and
GROUP_MAX_SIZE_REACHED on to the application. JoinGroup's answer has no text, so the log says which
limit was reached. Only growth is refused: a group that was stored under larger limits loads and
goes on, and its members may rejoin with what they had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from enum import StrEnum

from stratamq.broker.kafka.contract import Services
from stratamq.meta.configs import AlterResourceConfig, ConfigKind, ConfigScope
from stratamq.meta.groups import check_group_name
from stratamq.model.config import HEARTBEAT, SESSION, GroupConfig, NodeConfig
from stratamq.model.dataclass import dataclass
from stratamq.wire.kafka.protocol import ErrorCode

ITEM_BYTES = 100
"""Memory of a small Python object beside its text: many tiny things are not small."""

GROUP_BYTES = 2_500
"""Memory of a group without members."""


class GroupLimit(StrEnum):
    """By the names of their settings."""

    MEMBER = "group.member.bytes.max"
    ASSIGNMENT = "group.assignment.bytes.max"
    MEMBERS = "group.max.size"
    GROUP = "group.bytes.max"
    ALL_GROUPS = "groups.bytes.max"

    @property
    def error(self) -> ErrorCode:
        return _ERRORS[self]


_ERRORS = {
    GroupLimit.MEMBER: ErrorCode.MESSAGE_TOO_LARGE,
    GroupLimit.ASSIGNMENT: ErrorCode.MESSAGE_TOO_LARGE,
    GroupLimit.MEMBERS: ErrorCode.GROUP_MAX_SIZE_REACHED,
    GroupLimit.GROUP: ErrorCode.GROUP_MAX_SIZE_REACHED,
    GroupLimit.ALL_GROUPS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def weight(*parts: str | bytes | None) -> int:
    """About the memory that these take."""
    total = 0
    for part in parts:
        if part is not None:
            wide = isinstance(part, str) and not part.isascii()
            total += ITEM_BYTES + len(part) * (4 if wide else 1)
    return total


@dataclass(slots=True)
class GroupUsage:
    """Bytes of all groups of a node."""

    used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """See the settings of the same names; times are milliseconds."""

    session_ms_min: int = 6_000
    session_ms_max: int = 1_800_000
    initial_delay_ms: int = 3_000
    members_max: int = 10_000
    consumer_session_ms: int = 45_000
    consumer_heartbeat_ms: int = 5_000
    retention_ms: int = 10_080 * 60_000
    metadata_bytes_max: int = 4096
    member_bytes_max: int = 1 << 20
    assignment_bytes_max: int = 1 << 20
    group_bytes_max: int = 2 << 20
    all_groups_bytes_max: int = 32 << 20
    upgrades: bool = True
    downgrades: bool = True
    """What `group.consumer.migration.policy` allows: see `groups.migration`."""
    usage: GroupUsage = field(default_factory=GroupUsage)

    @classmethod
    def of(cls, config: NodeConfig, usage: GroupUsage) -> GroupLimits:
        policy = config.text("group.consumer.migration.policy")
        return cls(
            session_ms_min=config.number("group.min.session.timeout.ms"),
            session_ms_max=config.number("group.max.session.timeout.ms"),
            initial_delay_ms=config.number("group.initial.rebalance.delay.ms"),
            members_max=config.number(GroupLimit.MEMBERS),
            consumer_session_ms=config.number("group.consumer.session.timeout.ms"),
            consumer_heartbeat_ms=config.number("group.consumer.heartbeat.interval.ms"),
            retention_ms=config.number("offsets.retention.minutes") * 60_000,
            metadata_bytes_max=config.number("offset.metadata.max.bytes"),
            member_bytes_max=config.number(GroupLimit.MEMBER),
            assignment_bytes_max=config.number(GroupLimit.ASSIGNMENT),
            group_bytes_max=config.number(GroupLimit.GROUP),
            all_groups_bytes_max=config.number(GroupLimit.ALL_GROUPS),
            upgrades=policy in ("upgrade", "bidirectional"),
            downgrades=policy in ("downgrade", "bidirectional"),
            usage=usage,
        )

    def over(self, config: GroupConfig) -> GroupLimits:
        """The same for a group that has configs of its own."""
        if not config.given:
            return self
        return replace(
            self,
            consumer_session_ms=config.number(SESSION),
            consumer_heartbeat_ms=config.number(HEARTBEAT),
        )

    def reached_by(self, group_bytes: int, growth: int) -> GroupLimit | None:
        """The limit that keeps a group of this size from growing so much."""
        if growth <= 0:
            return None
        if group_bytes + growth > self.group_bytes_max:
            return GroupLimit.GROUP
        return (
            GroupLimit.ALL_GROUPS if self.usage.used + growth > self.all_groups_bytes_max else None
        )


CACHE_S = 10.0
"""How long a change may take to reach this node's own cache."""

GroupConfigPlan = Callable[[GroupConfig], tuple[Mapping[str, object], Collection[str]]]
"""From a group's config to what is put and what is reset."""


class GroupConfigs:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = asyncio.Lock()  # a change is checked against the config that it changes

    def config(self, name: str) -> GroupConfig:
        given = self._services.configs.given(ConfigScope(ConfigKind.GROUP, name))
        return GroupConfig.of(given, self._services.config)

    def names(self) -> list[str]:
        """The groups that have configs of their own."""
        return [scope.name for scope in self._services.configs.scopes(ConfigKind.GROUP)]

    async def alter(self, name: str, plan: GroupConfigPlan, validate_only: bool) -> None:
        """InvalidName or InvalidConfig when it cannot be; then nothing has changed."""
        check_group_name(name)
        async with self._lock:
            config = self.config(name)
            put, reset = plan(config)
            stays = {key: value for key, value in config.given.items() if key not in reset}
            after = GroupConfig.of({**stays, **put}, self._services.config)
            after.check(self._services.config)
            if validate_only:
                return
            command = AlterResourceConfig(
                scope=ConfigScope(ConfigKind.GROUP, name),
                put={key: after[key] for key in put},
                reset=frozenset(reset),
            )
            revision = await self._services.meta.submit(command)
            await self._services.configs.wait_for_revision(revision, CACHE_S)
