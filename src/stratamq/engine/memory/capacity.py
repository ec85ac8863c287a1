"""How much memory all shards of EngineMemory may use, and what gives way when it is full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.persisted import PersistedShardStore
from stratamq.engine.memory.segment import weight_of
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.log.contract import PlacedBatch, SegmentInfo, ShardStore
from stratamq.model.errors import CapacityExceeded
from stratamq.model.types import Offset, TimestampMs

Candidate = tuple[MemoryShardStore, SegmentInfo]


class Capacity:
    """Counts what stores weigh and evicts whole segments, the oldest of all shards first.

    A segment's age is that of its newest record. An active segment is sealed and goes when no
    sealed one is left: it must be the reason why memory is full. What object storage has can be
    read afterwards as before. Segments that are to be persisted are not evicted: they are sealed,
    and leave when the disk has them."""

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self._stores: dict[MemoryShardStore, ShardStore] = {}
        self._age_checked_ms = 0
        self.evicted: list[MemoryShardStore] = []
        """Stores whose start has moved since this list was last emptied."""
        self.used_bytes = 0
        self._weighing = Lock()
        self.busy: set[MemoryShardStore] = set()
        """Stores that a thread is changing: nothing of them is sealed meanwhile."""
        self.is_elsewhere: Callable[[MemoryShardStore, Offset], bool] = lambda memory, end: False
        """Whether object storage has what a store holds below an offset: then only the memory is
        given back."""

    def weigh(self, change: int) -> None:
        with self._weighing:  # shards are made and removed, and persisted ones changed, by threads
            self.used_bytes += change

    def adopt(self, memory: MemoryShardStore, store: ShardStore) -> None:
        """`store` is what stands before `memory`: itself, or one that persists it."""
        self._stores[memory] = store

    def release(self, memory: MemoryShardStore) -> None:
        del self._stores[memory]

    def make_room(self, batches: Sequence[PlacedBatch], now_ms: TimestampMs) -> None:
        """Room for the batches, or CapacityExceeded."""
        limits = self._limits
        if now_ms - self._age_checked_ms > limits.memory_age_ms_max // 10 >= 0:
            self.evict_old(now_ms)
        needed = sum(map(weight_of, batches))
        if self.used_bytes + needed <= limits.memory_bytes_max:
            return
        if limits.memory_full == "refuse" or needed > limits.memory_bytes_max:
            raise self._full(needed)
        while self.used_bytes + needed > limits.memory_bytes_max:
            if not self._evict_oldest():
                self._seal_heaviest()
                raise self._full(needed)

    def evict_old(self, now_ms: TimestampMs) -> None:
        """Evict every segment whose newest record is over the age limit. Looking at all shards
        takes time: writers do it no more often than ten times in that age."""
        self._age_checked_ms = now_ms
        if self._limits.memory_age_ms_max < 0:
            return
        oldest_ms = now_ms - self._limits.memory_age_ms_max
        for memory in self._idle():
            for segment in memory.segments():
                if not segment.size_bytes or segment.largest_timestamp >= oldest_ms:
                    break
                self._evict(memory, segment)

    def _evict_oldest(self) -> bool:
        oldest = self._oldest(sealed=True) or self._oldest(sealed=False)
        if oldest is None:
            return False
        self._evict(*oldest)
        return True

    def _oldest(self, sealed: bool) -> Candidate | None:
        candidates = (
            (memory, segment)
            for memory, segment in self._firsts()
            if segment.active is not sealed and not self._is_persisted(memory)
        )
        return min(candidates, key=lambda found: found[1].largest_timestamp, default=None)

    def _firsts(self) -> Iterator[Candidate]:
        for memory in self._idle():
            first = memory.snapshot()[0]
            if first.size_bytes:
                yield memory, first.info(active=len(memory.snapshot()) == 1)

    def _seal_heaviest(self) -> None:
        """What is persisted gives room by being sealed and moved."""
        persisted = [memory for memory in self._idle() if self._is_persisted(memory)]
        if persisted:
            max(persisted, key=lambda memory: memory.snapshot()[-1].weight).roll()

    def _evict(self, memory: MemoryShardStore, segment: SegmentInfo) -> None:
        if segment.active:
            memory.roll()
        if self._is_persisted(memory):
            return
        if self.is_elsewhere(memory, segment.end_offset):
            memory.offload(segment.end_offset)
        else:
            memory.trim(segment.end_offset)
            self.evicted.append(memory)

    def _is_persisted(self, memory: MemoryShardStore) -> bool:
        return isinstance(self._stores.get(memory), PersistedShardStore)

    def _idle(self) -> list[MemoryShardStore]:
        return [memory for memory in list(self._stores) if memory not in self.busy]

    def _full(self, needed: int) -> CapacityExceeded:
        return CapacityExceeded(
            f"{needed} bytes do not fit: {self.used_bytes} of "
            f"{self._limits.memory_bytes_max} bytes of memory are in use"
        )
