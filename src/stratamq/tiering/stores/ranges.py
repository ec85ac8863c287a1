"""Into which pieces a long read is cut. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from stratamq.tiering.stores.sums import Sums


def windows(start: int, stop: int, sums: Sums | None, step: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of at most `step` bytes, or a block, from `start` to `stop`. They meet at
    block boundaries: no block is read twice."""
    step = max(step, sums.block_bytes) if sums else step
    while start < stop:
        end = min(start - start % step + step, stop)
        yield start, end
        start = end
