"""What an operator may choose about groups."""

from __future__ import annotations

from dataclasses import replace

from stratamq.model.config import NodeConfig
from stratamq.model.dataclass import dataclass
from stratamq.model.group import HEARTBEAT, SESSION, GroupConfig


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

    @classmethod
    def of(cls, config: NodeConfig) -> GroupLimits:
        return cls(
            session_ms_min=config.number("group.min.session.timeout.ms"),
            session_ms_max=config.number("group.max.session.timeout.ms"),
            initial_delay_ms=config.number("group.initial.rebalance.delay.ms"),
            members_max=config.number("group.max.size"),
            consumer_session_ms=config.number("group.consumer.session.timeout.ms"),
            consumer_heartbeat_ms=config.number("group.consumer.heartbeat.interval.ms"),
            retention_ms=config.number("offsets.retention.minutes") * 60_000,
            metadata_bytes_max=config.number("offset.metadata.max.bytes"),
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
