"""Time comes in by this door, so that tests can turn the hands."""

from __future__ import annotations

import time
from typing import Protocol

from stratamq.model.types import TimestampMs


class Clock(Protocol):
    """Wall time, for timestamps, retention and expiry."""

    def now_ms(self) -> TimestampMs: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> TimestampMs:
        return TimestampMs(time.time_ns() // 1_000_000)


class ManualClock:
    """A clock that moves only by `advance`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self._now_ms)

    def advance(self, ms: int) -> None:
        self._now_ms += ms
