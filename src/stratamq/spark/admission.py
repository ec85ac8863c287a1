"""How far the next micro-batch goes. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.client import TopicPartition
from stratamq.spark.options import TriggerLimits

Offsets = Mapping[TopicPartition, int]


def is_too_little(starts: Offsets, ends: Offsets, limits: TriggerLimits, waited_ms: float) -> bool:
    """Whether to wait for more to come."""
    if limits.offsets_min is None or waited_ms >= limits.delay_ms_max:
        return False
    return sum(_counts(starts, ends).values()) < limits.offsets_min


def admitted(
    starts: Offsets,
    ends: Offsets,
    limits: TriggerLimits,
    offset_bytes: Mapping[TopicPartition, float],
) -> dict[TopicPartition, int]:
    """Ends that keep to the limits: each partition gets its share of them, by how much it has."""
    counts = _counts(starts, ends)
    share = 1.0
    total = sum(counts.values())
    if limits.offsets_max is not None and total > limits.offsets_max:
        share = limits.offsets_max / total
    if limits.bytes_max is not None:
        total_bytes = sum(count * offset_bytes[place] for place, count in counts.items())
        if total_bytes > limits.bytes_max:
            share = min(share, limits.bytes_max / total_bytes)
    if share == 1.0:
        return dict(ends)
    # At least one offset each, or a small partition would wait for ever behind large ones.
    return {
        place: starts[place] + min(count, max(int(count * share), 1))
        for place, count in counts.items()
    }


def _counts(starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    return {place: max(0, end - starts[place]) for place, end in ends.items()}
