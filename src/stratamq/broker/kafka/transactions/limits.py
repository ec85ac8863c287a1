"""What an operator may choose about transactions."""

from __future__ import annotations

from stratamq.model.config import NodeConfig
from stratamq.model.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLimits:
    """See the settings of the same names; times are milliseconds."""

    timeout_ms_max: int = 900_000
    expiration_ms: int = 604_800_000
    sweep_ms: int = 10_000

    @classmethod
    def of(cls, config: NodeConfig) -> TransactionLimits:
        return cls(
            timeout_ms_max=config.number("transaction.max.timeout.ms"),
            expiration_ms=config.number("transactional.id.expiration.ms"),
            sweep_ms=config.number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        )
