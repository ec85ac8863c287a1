"""Which segments are due. Pure: the engine acts on the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stratamq.log.contract import SegmentInfo
from stratamq.model.settings.topic import KEEP_FOREVER
from stratamq.model.topic import TopicConfig


def due(
    segments: Sequence[SegmentInfo], high_watermark: int, now_ms: int, config: TopicConfig
) -> int:
    """How many of the oldest segments go.

    Segments go from the oldest on, without leaving one out, so a shard never has a hole. What is
    not committed stays. The active segment goes by time alone, when all of it is old: a quiet topic
    must not keep its last records for ever."""
    if not config.deletes:
        return 0
    committed = _count(segment.end_offset <= high_watermark for segment in segments)
    by_time = _due_by_time(segments, now_ms, config.number("retention.ms"))
    by_size = _due_by_size(segments, config.number("retention.bytes"))
    return min(committed, max(by_time, by_size))


def _due_by_time(segments: Sequence[SegmentInfo], now_ms: int, limit_ms: int) -> int:
    """A segment that compaction emptied has no age: it goes with an old one after it."""
    if limit_ms == KEEP_FOREVER:
        return 0
    count = 0
    for number, segment in enumerate(segments, 1):
        if not segment.size_bytes:
            continue
        if not 0 <= segment.largest_timestamp < now_ms - limit_ms:
            break
        count = number
    return count


def _due_by_size(segments: Sequence[SegmentInfo], limit_bytes: int) -> int:
    if limit_bytes == KEEP_FOREVER:
        return 0
    excess = sum(segment.size_bytes for segment in segments) - limit_bytes
    count = 0
    for segment in segments:
        if excess <= 0 or segment.active:
            break
        excess -= segment.size_bytes
        count += 1
    return count


def _count(flags: Iterable[bool]) -> int:
    """How many are true before the first that is not."""
    count = 0
    for flag in flags:
        if not flag:
            break
        count += 1
    return count
