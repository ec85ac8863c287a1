"""Ranges of offsets, cut into what one task reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from stratamq.client import TopicPartition
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
    return [piece for one in full for piece in _pieces(one, min(parts[one.place], one.count))]


def _pieces(one: OffsetRange, count: int) -> list[OffsetRange]:
    cuts = [one.start + one.count * i // count for i in range(count + 1)]
    return [replace(one, start=start, stop=stop) for start, stop in pairwise(cuts)]
