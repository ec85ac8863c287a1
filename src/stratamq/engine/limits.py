"""Everything in an engine that could grow, and where it stops."""

from __future__ import annotations

import os
from dataclasses import field
from typing import Literal

from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidConfig

MIB = 1 << 20
WORKERS_MAX = 16
AT_LEAST_ONE = (
    "workers",
    "queue_requests_max",
    "drain_requests_max",
    "reader_threads",
    "cold_reader_threads",
)


def _workers_default() -> int:
    return min(os.cpu_count() or 1, WORKERS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Limits of one engine. Each says what happens when it is met."""

    workers: int = field(default_factory=_workers_default)
    """Threads that write. A shard always belongs to the same one. Nothing stored depends on it."""

    queue_requests_max: int = 4096
    """Requests queued or being written, per worker. Full: producers wait."""

    queue_bytes_max: int = 64 * MIB
    """Bytes of those requests, per worker. Full: producers wait. A single larger one goes alone."""

    drain_requests_max: int = 1024
    """Requests that one commit takes. The others wait for the next one."""

    drain_bytes_max: int = 8 * MIB
    """Bytes that one commit takes. The others wait for the next one."""

    reader_threads: int = 4
    """Threads that read from disk. All busy: readers wait."""

    cold_reader_threads: int = 4
    """Threads that read what object storage has. All busy: such reads wait, and no others."""

    open_files_max: int = 4096
    """EngineSegment: segment files that stay open for their next use. Above: those used longest ago
    are closed, as soon as no reader holds them. Files with unsynced writes (`flush=os`, `interval`)
    are one half at most. Above: those written longest ago are synced and closed, and the write that
    needs another waits for that."""

    shards_opened_first_max: int = 1000
    """EngineSegment: shards that are opened before the engine is. Where there are more, those that
    have nothing to recover are opened when they are first used, and by a pass in the background."""

    decompressed_bytes_max: int = 64 * MIB
    """Size of a batch once decompressed. Above: BatchTooLarge, and nothing is stored."""

    checkpoint_ms: int = 5000
    """How often the high watermarks of replicated shards are saved. A crash loses that much of
    their progress, which the leader tells again."""

    producer_expiration_ms: int = 24 * 60 * 60 * 1000
    """Producers that were silent that long are forgotten, unless a transaction is under way. The
    next batch of one counts as its first."""

    producers_max: int = 100_000
    """Producers that all shards remember, at about half a kilobyte each. Above: the shard that a
    new one writes to forgets those it heard of longest ago, but for its last sixteen and those with
    a transaction under way. The next batch of one that was forgotten counts as its first."""

    aborted_transactions_max: int = 1_000_000
    """Aborted transactions of one shard that readers may still meet, at 32 bytes each. Above: a
    batch that begins another transaction is refused with CapacityExceeded, until retention or
    compaction has removed old ones."""

    deletion_marks_max: int = 100_000
    """Records of one shard that were deleted by key or offset and are still in its files, at about
    a hundred bytes each. Above: a deletion is refused with CapacityExceeded, until compaction or
    retention has removed some."""

    compaction_keys_max: int = 1_000_000
    """Distinct keys that one compaction of a shard remembers, at about 200 bytes each. Above: the
    records of further keys are kept, superseded or not."""

    memory_bytes_max: int = 1024 * MIB
    """EngineMemory: bytes of all shards together. Full: `memory_full` decides."""

    memory_age_ms_max: int = -1
    """EngineMemory: segments whose newest record is older than this are evicted; -1: no limit."""

    memory_full: Literal["evict", "refuse"] = "evict"
    """EngineMemory: evict the oldest segments, or refuse the write with CapacityExceeded."""

    def __post_init__(self) -> None:
        for name in AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise InvalidConfig(f"{name} must be at least 1")
        if self.workers > WORKERS_MAX:
            raise InvalidConfig(f"workers: more than {WORKERS_MAX} would only wait for the disk")
