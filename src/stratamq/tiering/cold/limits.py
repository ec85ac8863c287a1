"""How much reading history may use, and how long it may take. Settings of the node: `cold.*`."""

from __future__ import annotations

from dataclasses import dataclass

from stratamq.model.config import NodeConfig

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdLimits:
    cache_bytes: int = 1024 * MIB
    memory_bytes: int = 256 * MIB
    read_ahead_bytes: int = 16 * MIB
    timeout_ms: int = 30_000
    """What one wait for the store may take: consumers give up after about as long."""
    files_max: int = 256
    """Open at once. Each has its footer in memory, and in a `file://` store a descriptor."""
    ahead_threads: int = 2
    ahead_pending_max: int = 32


def limits_of(config: NodeConfig) -> ColdLimits:
    return ColdLimits(
        cache_bytes=config.number("cold.cache.bytes"),
        memory_bytes=config.number("cold.cache.memory.bytes"),
        read_ahead_bytes=config.number("cold.read.ahead.bytes"),
    )
