"""What the writer of a shard does besides appending. Each function runs as that writer."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from stratamq.engine import lookups, retention
from stratamq.engine.compaction import Plan, Scope, plan, rewriter
from stratamq.engine.producers_shard import forget_above
from stratamq.engine.shard import Shard
from stratamq.engine.view import View
from stratamq.log.contract import ShardStore
from stratamq.model.errors import CorruptRecord
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import decode_some

__all__ = [
    "Rewrite",
    "Scope",
    "delete_key",
    "delete_offset",
    "plan",
    "retain",
    "trim",
    "truncate",
]

logger = logging.getLogger(__name__)


def delete_key(view: View, key: bytes) -> int:
    offsets = lookups.offsets_of_key(view, key)
    if offsets:
        view.store.delete(offsets)
    return len(offsets)


def delete_offset(view: View, offset: Offset) -> bool:
    """Only what is there can be deleted: a mark without its record would never go away."""
    if not view.start <= offset < view.end:
        return False
    found = view.batch_at(offset)
    if found is None or found[0].is_control:
        return False
    records = decode_some(*found, [offset], view.decompressed_max)
    if not view.visible(records, view.start):
        return False
    view.store.delete([offset])
    return True


def truncate(shard: Shard, end: Offset) -> None:
    shard.generation += 1
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
    segments = [found for found in store.segments() if found.end_offset > store.start_offset]
    count = retention.due(segments, committed, now_ms, shard.spec.config)
    if count:
        trim(shard, segments[count - 1].end_offset)
    return count


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One planned segment. The plan was made beside the writer, so it may have been overtaken."""

    shard: Shard
    plan: Plan
    generation: int
    decompressed_max: int

    def __call__(self) -> int:
        """The bytes given back."""
        store, planned = self.shard.store, self.plan.segment
        before = _size(store, planned.base_offset)
        if self.shard.generation != self.generation or before is None:
            return 0
        self.plan.doomed.add_within(planned, store.deleted())  # what was deleted since
        try:
            last_batches = self.shard.producers.table.last_batches()
            remaining = rewriter(self.plan.doomed, self.decompressed_max, last_batches)
            store.rewrite(planned.base_offset, remaining)
        except CorruptRecord as damage:
            logger.warning("%s is not compacted: %s", self.shard.name, damage)
            return 0
        return before - (_size(store, planned.base_offset) or 0)


def _size(store: ShardStore, base_offset: Offset) -> int | None:
    """Size of the sealed segment that begins there."""
    for segment in store.segments():
        if segment.base_offset == base_offset and not segment.active:
            return segment.size_bytes
    return None
