"""How much a listener lets in."""

from __future__ import annotations

from stratamq.model.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """`unsent_high_bytes`: reading stops while more than that waits to be sent, until it is down to
    `unsent_low_bytes`. A connection on which nothing moves for `idle_ms_max` is closed."""

    connections_max: int = 2048
    connections_per_host_max: int = 2048
    idle_ms_max: int = 600_000
    unsent_high_bytes: int = 256 << 10
    unsent_low_bytes: int = 32 << 10
    backlog: int = 1024
