"""How much a store may use, and how long it may take. Settings of the node: `store.*`."""

from __future__ import annotations

from dataclasses import dataclass

from stratamq.tiering.stores.retry import RetryPolicy

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    uploads_max: int = 4
    reads_max: int = 16
    connect_timeout_ms: int = 5_000
    timeout_ms: int = 20_000
    attempts_max: int = 5
    backoff_ms: int = 100
    backoff_ms_max: int = 5_000
    retry_ms_max: int = 60_000
    part_bytes: int = 16 * MIB

    @property
    def retry(self) -> RetryPolicy:
        return RetryPolicy(
            self.attempts_max, self.backoff_ms, self.backoff_ms_max, self.retry_ms_max
        )
