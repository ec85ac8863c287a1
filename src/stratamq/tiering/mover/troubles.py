"""Shards that failed: when they are tried again, and what is said about it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from stratamq.model.clock import Clock
from stratamq.model.types import ShardName, TimestampMs

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Trouble:
    count: int
    again_ms: int
    told: set[str]


class Troubles:
    """A failure is logged once for each kind of it, until the shard has been well again; the pause
    doubles with every failure."""

    def __init__(self, clock: Clock, backoff_ms: int, backoff_ms_max: int) -> None:
        self._clock = clock
        self._backoff_ms, self._backoff_ms_max = backoff_ms, backoff_ms_max
        self._shards: dict[ShardName, _Trouble] = {}

    def __len__(self) -> int:
        return len(self._shards)

    def waits(self, shard: ShardName) -> bool:
        found = self._shards.get(shard)
        return found is not None and self._clock.now_ms() < found.again_ms

    def failed(self, topic: str, shard: ShardName, error: Exception) -> None:
        found = self._shards.setdefault(shard, _Trouble(0, 0, set()))
        pause_ms = min(self._backoff_ms << min(found.count, 30), self._backoff_ms_max)
        found.count += 1
        found.again_ms = TimestampMs(self._clock.now_ms() + pause_ms)
        kind = type(error).__name__
        if kind not in found.told:
            found.told.add(kind)
            log.warning(
                "tiering: topic %s, shard %s: %s; it is tried again, the segment stays here",
                topic,
                shard,
                str(error) or kind,
            )

    def well(self, topic: str, shard: ShardName) -> None:
        if self._shards.pop(shard, None):
            log.info("tiering: topic %s, shard %s: works again", topic, shard)

    def keep(self, shards: set[ShardName]) -> None:
        """Forget all others: they are gone."""
        for shard in self._shards.keys() - shards:
            del self._shards[shard]
