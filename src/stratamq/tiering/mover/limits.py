"""How much the mover may do. Settings of the node: `tier.*`."""

from __future__ import annotations

from dataclasses import dataclass

from stratamq.model.config import NodeConfig

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MoverLimits:
    interval_ms: int = 30_000
    workers: int = 1
    bytes_per_second: int = 0
    orphan_grace_ms: int = 24 * HOUR_MS
    rewrite_ms: int = HOUR_MS
    """How often a shard's files are looked through for records that were deleted since."""
    backoff_ms: int = 1_000
    backoff_ms_max: int = 10 * 60_000

    @classmethod
    def of(cls, config: NodeConfig) -> MoverLimits:
        return cls(
            interval_ms=config.number("tier.interval.ms"),
            workers=config.number("tier.workers"),
            bytes_per_second=config.number("tier.bytes.per.second"),
            orphan_grace_ms=config.number("tier.orphan.grace.ms"),
        )
