"""How long one attempt may take: a time for silence, and more for bytes that move slowly."""

from __future__ import annotations

import time
from collections.abc import Callable

from stratamq.model.errors import StoreUnavailable

SLOW_BYTES_PER_S = 64 * 1024
"""A connection that moves less than this is as good as broken: a trickle of bytes would otherwise
keep a thread for ever, since no single wait is too long."""


class Deadline:
    """Begins when it is made. Threads ask it between two pieces."""

    def __init__(
        self, timeout_ms: int, size: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._end = now() + timeout_ms / 1000 + size / SLOW_BYTES_PER_S

    def check(self) -> None:
        if self._now() > self._end:
            raise StoreUnavailable("the store is too slow")

    def extend(self, seconds: float) -> None:
        """Time that was spent on purpose does not count."""
        self._end += seconds
