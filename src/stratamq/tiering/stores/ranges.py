"""Into which pieces a long read is cut. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from stratamq.tiering.stores.sums import Sums

WINDOW_BYTES = 4 << 20
"""What a stream reads at a time: large enough that a request's own cost does not matter."""


def windows(start: int, stop: int, sums: Sums | None) -> Iterator[tuple[int, int]]:
    """Consecutive ranges from `start` to `stop`, which meet at block boundaries: no block is read
    twice."""
    step = max(WINDOW_BYTES, sums.block_bytes) if sums else WINDOW_BYTES
    while start < stop:
        end = min(start - start % step + step, stop)
        yield start, end
        start = end
