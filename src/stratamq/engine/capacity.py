"""How much memory all shards of EngineMemory may use, and what gives way when it is full."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory_segment import weight_of
from stratamq.engine.memory_store import MemoryShardStore
from stratamq.log.contract import PlacedBatch, SegmentInfo
from stratamq.model.errors import CapacityExceeded
from stratamq.model.types import TimestampMs


class Capacity:
    """Counts what stores weigh and evicts whole segments, the oldest of all shards first.

    A segment's age is that of its newest record. An active segment is sealed and goes when no
    sealed one is left: it must be the reason why memory is full."""

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self._stores: list[MemoryShardStore] = []
        self.used_bytes = 0

    def weigh(self, change: int) -> None:
        self.used_bytes += change

    def adopt(self, store: MemoryShardStore) -> MemoryShardStore:
        self._stores.append(store)
        return store

    def release(self, store: object) -> None:
        self._stores = [kept for kept in self._stores if kept is not store]

    def make_room(self, batches: Sequence[PlacedBatch], now_ms: TimestampMs) -> None:
        """Room for the batches, or CapacityExceeded."""
        limits = self._limits
        if limits.memory_age_ms_max >= 0:
            self.evict_older(TimestampMs(now_ms - limits.memory_age_ms_max))
        needed = sum(map(weight_of, batches))
        if self.used_bytes + needed <= limits.memory_bytes_max:
            return
        if limits.memory_full == "refuse" or needed > limits.memory_bytes_max:
            raise self._full(needed)
        while self.used_bytes + needed > limits.memory_bytes_max:
            if not self._evict_oldest():
                raise self._full(needed)

    def evict_older(self, oldest_ms: TimestampMs) -> None:
        """Evict every segment whose newest record is older."""
        for store in self._stores:
            for segment in store.segments():
                if not segment.size_bytes or segment.max_timestamp >= oldest_ms:
                    break
                _evict(store, segment)

    def _evict_oldest(self) -> bool:
        victim = self._oldest(sealed=True) or self._oldest(sealed=False)
        if victim is None:
            return False
        _evict(*victim)
        return True

    def _oldest(self, sealed: bool) -> tuple[MemoryShardStore, SegmentInfo] | None:
        firsts = ((store, store.segments()[0]) for store in self._stores)
        candidates = [
            (store, segment)
            for store, segment in firsts
            if segment.size_bytes and segment.active is not sealed
        ]
        return min(candidates, key=lambda found: found[1].max_timestamp, default=None)

    def _full(self, needed: int) -> CapacityExceeded:
        return CapacityExceeded(
            f"{needed} bytes do not fit: {self.used_bytes} of "
            f"{self._limits.memory_bytes_max} bytes of memory are in use"
        )


def _evict(store: MemoryShardStore, segment: SegmentInfo) -> None:
    if segment.active:
        store.roll()
    store.trim(segment.end_offset)
