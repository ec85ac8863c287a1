"""What the mover is doing and has done, and which shards failed: for people and for metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from stratamq.model.clock import Clock
from stratamq.model.types import NO_TIMESTAMP, Offset, ShardName, TimestampMs


class Step(StrEnum):
    """The steps of a segment's move: see `steps`."""

    EXPORT = "export"
    CONVERT = "convert"
    UPLOAD = "upload"
    VERIFY = "verify"
    COMMIT = "commit"
    ATTACH = "attach"
    OFFLOAD = "offload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Underway:
    """A segment on its way. Bytes are those of the step."""

    topic: str
    shard: ShardName
    base_offset: Offset
    step: Step = Step.EXPORT
    done_bytes: int = 0
    total_bytes: int = 0
    since_ms: TimestampMs = NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Since the node started."""

    rounds: int = 0
    segments_moved: int = 0
    log_bytes_moved: int = 0
    """What the segments took in the log."""
    object_bytes_stored: int = 0
    """What they take in the store."""
    files_rewritten: int = 0
    """Without what was deleted since they were made."""
    local_bytes_freed: int = 0
    objects_deleted: int = 0
    last_moved_ms: TimestampMs = NO_TIMESTAMP
    failures: int = 0
    last_error: str = ""
    last_error_ms: TimestampMs = NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class MoverStatus:
    """`waiting` are segments that are due, as far as the last round saw; `troubled` shards that
    failed and will be tried again."""

    underway: tuple[Underway, ...] = ()
    waiting_segments: int = 0
    waiting_bytes: int = 0
    troubled: int = 0
    totals: Totals = Totals()


class Track:
    """One segment's entry. `count` may be called from any thread."""

    def __init__(self, entry: Underway) -> None:
        self._entry = entry
        self.done_bytes = 0

    @property
    def entry(self) -> Underway:
        return replace(self._entry, done_bytes=min(self.done_bytes, self._entry.total_bytes))

    def enter(self, step: Step, total_bytes: int = 0) -> None:
        self._entry = replace(self._entry, step=step, total_bytes=total_bytes)
        self.done_bytes = 0

    def count(self, size: int) -> None:
        self.done_bytes += size  # a little off now and then: who looks at it wants a rough idea

    def reached(self, done_bytes: int) -> None:
        self.done_bytes = done_bytes


class Progress:
    """What the mover does. The mover writes it, metrics and commands read it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tracks: list[Track] = []
        self._due: dict[ShardName, tuple[int, int]] = {}
        self.totals = Totals()

    @contextmanager
    def track(self, topic: str, shard: ShardName, base_offset: Offset) -> Iterator[Track]:
        now = self._clock.now_ms()
        entry = Underway(topic=topic, shard=shard, base_offset=base_offset, since_ms=now)
        track = Track(entry)
        self._tracks.append(track)
        try:
            yield track
        finally:
            self._tracks.remove(track)

    def add(self, **more: int) -> None:
        """Add to the totals, by name."""
        known = {name: getattr(self.totals, name) + by for name, by in more.items()}
        if "segments_moved" in more:
            known["last_moved_ms"] = self._clock.now_ms()
        self.totals = replace(self.totals, **known)

    def failed(self, error: str) -> None:
        self.totals = replace(
            self.totals,
            failures=self.totals.failures + 1,
            last_error=error,
            last_error_ms=self._clock.now_ms(),
        )

    def due(self, shard: ShardName, segments: int, size_bytes: int) -> None:
        """Note how many segments of a shard, and bytes, wait to be moved."""
        if segments:
            self._due[shard] = segments, size_bytes
        else:
            self._due.pop(shard, None)

    def waiting(self, shard: ShardName) -> tuple[int, int]:
        return self._due.get(shard, (0, 0))

    def keep(self, shards: set[ShardName]) -> None:
        """Forget what is due for others: they are gone."""
        for shard in self._due.keys() - shards:
            del self._due[shard]

    def status(self, troubled: int = 0) -> MoverStatus:
        return MoverStatus(
            underway=tuple(track.entry for track in self._tracks),
            waiting_segments=sum(count for count, _ in self._due.values()),
            waiting_bytes=sum(size for _, size in self._due.values()),
            troubled=troubled,
            totals=self.totals,
        )


log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Trouble:
    count: int
    again_ms: int
    logged: set[str]


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
        if kind not in found.logged:
            found.logged.add(kind)
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
