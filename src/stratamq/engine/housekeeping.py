"""What the writer of a shard does besides appending. Each function runs as that writer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from itertools import islice

from stratamq.engine import lookups, retention
from stratamq.engine.compaction import Plan, Scope, plan, rewriter
from stratamq.engine.producers.shard import forget_above
from stratamq.engine.shard import Shard
from stratamq.engine.view import View
from stratamq.log.contract import ShardStore, Step
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import CapacityExceeded, CorruptRecord
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import decode_some

__all__ = [
    "Rewrite",
    "Scope",
    "at_offset",
    "delete",
    "of_key",
    "plan",
    "retain",
    "trim",
    "truncate",
]

logger = logging.getLogger(__name__)


Find = Callable[[View], Sequence[Offset]]
"""Looks for the records that are to be deleted."""


def of_key(key: bytes, found_max: int) -> Find:
    """Finds one more than `found_max` at most: so many are not deleted, however many there are."""
    return lambda view: list(islice(lookups.offsets_of_key(view, key), found_max + 1))


def at_offset(offset: Offset) -> Find:
    """Only what is there can be deleted: a mark without its record would never go away."""

    def find(view: View) -> list[Offset]:
        found = view.batch_at(offset) if view.start <= offset < view.end else None
        if found is None or found[0].is_control:
            return []
        records = decode_some(*found, [offset], view.decompressed_max)
        return [record.offset for record in view.visible(records, view.start)]

    return find


def delete(shard: Shard, offsets: Iterable[Offset], marks_max: int) -> int:
    """Mark those that were not trimmed since they were found; how many. CapacityExceeded, and none
    is marked, when the shard would have more marks than `marks_max`."""
    store = shard.store
    left = [offset for offset in offsets if offset >= store.start_offset]
    marks = len(store.deleted()) + len(left)
    if left and marks > marks_max:
        raise CapacityExceeded(
            f"{shard.name}: deletions.per.shard.max is {marks_max}; this would make {marks} or more"
        )
    if left:
        store.delete(left)
    return len(left)


def to_be_taken_out(shard: Shard) -> frozenset[Offset]:
    """What is deleted, without what is known to be gone."""
    shard.taken_out &= shard.store.deleted()
    return frozenset(shard.store.deleted() - shard.taken_out)


def truncate(shard: Shard, end: Offset) -> None:
    shard.generation += 1
    shard.taken_out.clear()
    forget_above(shard.store, end)
    shard.store.truncate(end)
    shard.learn_epoch()
    shard.learn_producers()


def trim(shard: Shard, start: Offset) -> None:
    shard.producers.before_trim(shard.store, start)
    shard.store.trim(start)
    shard.producers.table.transactions.start_at(start)


def retain(shard: Shard, committed: Offset, now_ms: TimestampMs, silent_ms_max: int) -> int:
    """Delete the segments that are due, the active one too: a log may be trimmed to its end.
    Producers have their time as well."""
    store = shard.store
    shard.producers.expire(store, now_ms, silent_ms_max)
    _roll_untimed(shard, now_ms)
    here = [found for found in store.segments() if found.end_offset > store.start_offset]
    segments = [*shard.cold_segments(), *here]
    count = retention.due(segments, committed, now_ms, shard.spec.config)
    if count:
        trim(shard, segments[count - 1].end_offset)
    return count


def _roll_untimed(shard: Shard, now_ms: TimestampMs) -> None:
    """Seal an active segment that has taken records for `segment.ms`, where its first batch has no
    timestamp from which a writer could tell (`must_roll`). Without that, a topic that is written
    all the time would never have an old segment. As in Kafka, a restart begins to count again."""
    active = shard.store.segments()[-1]
    if active.first_timestamp >= 0 or not active.size_bytes:
        shard.untimed = None
    elif shard.untimed is None or shard.untimed[0] != active.base_offset:
        shard.untimed = active.base_offset, now_ms
    elif now_ms - shard.untimed[1] > shard.spec.config.number("segment.ms"):
        shard.store.roll()


@dataclass(slots=True)
class Rewrite:
    """One planned segment. The plan was made beside the writer, so it may have been overtaken.

    `begin` is the writer's, `prepare` a reader's, who may take long, and then `steps` are the
    writer's again.
    """

    shard: Shard
    plan: Plan
    generation: int
    decompressed_max: int
    marks: frozenset[Offset] = frozenset()
    """What was deleted in the segment when it was begun."""
    last_batches: Set[Offset] = frozenset()
    steps: Sequence[Callable[[], int]] = ()

    def begin(self) -> bool:
        """Whether there is still something to do. What was deleted since the plan goes as well."""
        self.marks = self._heed_marks()
        self.last_batches = self.shard.producers.table.last_batches()
        return self._size() is not None

    def prepare(self) -> None:
        store, base = self.shard.store, self.plan.segment.base_offset
        remaining = rewriter(self.plan.doomed, self.decompressed_max, self.last_batches)
        try:
            forgotten = frozenset(at for at in self.marks if at >= self.shard.shown)
            steps = store.prepare_rewrite(base, remaining, forgotten)
        except CorruptRecord as damage:
            logger.warning("%s is not compacted: %s", self.shard.name, damage)
        else:
            self.steps = [partial(self._take, step) for step in steps]

    def _take(self, step: Step) -> int:
        """The bytes given back. A store that left everything to the writer sees newer marks too."""
        before = self._size()
        if before is None:
            return 0
        self._heed_marks()
        step()
        self.shard.taken_out |= self.marks & self.shard.store.deleted()
        return before - (self._size() or 0)

    def _heed_marks(self) -> frozenset[Offset]:
        base, end = self.plan.segment.base_offset, self.plan.segment.end_offset
        marks = frozenset(at for at in self.shard.store.deleted() if base <= at < end)
        self.plan.doomed.add_within(self.plan.segment, marks)
        return marks

    def _size(self) -> int | None:
        """None when the segment is not what it was when the plan was made, or is not to change
        any more."""
        base_offset = self.plan.segment.base_offset
        if self.shard.generation != self.generation or base_offset < self.shard.settled_end():
            return None
        return _size(self.shard.store, base_offset)


def _size(store: ShardStore, base_offset: Offset) -> int | None:
    """Size of the sealed segment that begins there."""
    for segment in store.segments():
        if segment.base_offset == base_offset and not segment.active:
            return segment.size_bytes
    return None
