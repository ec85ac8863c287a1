"""Which offsets are read: how much a trigger takes, and how ranges are split into tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from stratamq.client import TopicPartition
from stratamq.spark.options import TriggerLimits
from stratamq.wire.kafka.protocol import NO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """start..stop - 1 of a partition, and about how many bytes there are to an offset."""

    place: TopicPartition
    start: int
    stop: int
    offset_bytes: float = 0.0
    topic_id: bytes = NO_UUID
    """Of the topic it was planned for: from another one of that name nothing is read."""

    @property
    def count(self) -> int:
        return self.stop - self.start

    @property
    def size_bytes(self) -> float:
        return self.count * self.offset_bytes


class ReadTask(InputPartition):
    """What Spark sends to an executor; `value` is the range to be read."""

    value: OffsetRange


def split(
    ranges: Sequence[OffsetRange], partition_bytes_max: int, partitions_min: int | None
) -> list[OffsetRange]:
    """Pieces of about the same size each, none over the limit, at least so many in all."""
    full = [one for one in ranges if one.count > 0]
    parts = {one.place: max(1, -int(-one.size_bytes // partition_bytes_max)) for one in full}
    missing = (partitions_min or 0) - sum(parts.values())
    total = sum(one.count for one in full)
    if missing > 0:
        for one in full:
            parts[one.place] += -(-missing * one.count // total)
    pieces = []
    for one in full:
        count = min(parts[one.place], one.count)
        cuts = [one.start + one.count * i // count for i in range(count + 1)]
        pieces += [replace(one, start=start, stop=stop) for start, stop in pairwise(cuts)]
    return pieces


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
    """Return ends within the limits: each partition gets its share of them, by how much it has."""
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
    # At least one offset each, or a small partition would wait for ever for large ones.
    return {
        place: starts[place] + min(count, max(int(count * share), 1))
        for place, count in counts.items()
    }


def _counts(starts: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    return {place: max(0, end - starts[place]) for place, end in ends.items()}
