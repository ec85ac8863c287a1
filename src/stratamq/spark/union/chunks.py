"""What comes from the nodes, in numbered chunks. Pure.

Spark's Python sources make every column, whether or not a query uses it. So the numbers are all
that Spark is given as rows, and a column is a function of a number: the optimizer drops those
functions that no query uses, and a dropped column is neither parsed nor moved.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from stratamq.spark.union.snapshot import Range

CHUNK_OFFSETS = 128
"""Few: where Spark cannot compile a query, it copies a whole chunk for each of its rows."""

TASK_BYTES = 32 << 20
"""What a task has in memory at once."""

TASKS_MIN = 8
"""Where there are as many partitions: a little work too is done side by side."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Numbers 0..count - 1, of `size` offsets each; the last of a range may have fewer."""

    ranges: tuple[Range, ...]
    size: int = CHUNK_OFFSETS

    @property
    def count(self) -> int:
        return sum(self._counts())

    def tasks(self, offset_bytes: float, tasks_min: int | None = None) -> int:
        """Return how many tasks are to read them: no more than there are chunks."""
        total_bytes = sum(one.end - one.start for one in self.ranges) * offset_bytes
        least = tasks_min or min(len(self.ranges), TASKS_MIN)
        return max(1, min(self.count, max(least, -int(-total_bytes // TASK_BYTES))))

    def of(self, numbers: Iterable[int]) -> list[Range]:
        """Return the range of each of these numbers."""
        ends = list(accumulate(self._counts()))
        chunks = []
        for number in numbers:
            at = bisect_right(ends, number)
            whole = self.ranges[at]
            start = whole.start + (number - (ends[at - 1] if at else 0)) * self.size
            chunks.append(Range(whole.partition, start, min(start + self.size, whole.end)))
        return chunks

    def _counts(self) -> list[int]:
        return [-(-(one.end - one.start) // self.size) for one in self.ranges]


def runs(chunks: Iterable[Range]) -> list[list[Range]]:
    """Put neighbours together, so that they are fetched as one range."""
    found: list[list[Range]] = []
    for one in chunks:
        last = found[-1][-1] if found else None
        if last and last.partition == one.partition and last.end == one.start:
            found[-1].append(one)
        else:
            found.append([one])
    return found
