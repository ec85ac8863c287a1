"""A rate over a few windows of time, as Kafka takes it. Pure: the time comes with each call.

The rate is what the windows hold, over the time since the oldest of them began, but at least over
all windows but one: a single burst after a silence does not count as if it went on for ever.
"""

from __future__ import annotations

from collections import deque

from stratamq.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Windows:
    count: int = 11
    length_ms: int = 1000

    @property
    def all_ms(self) -> int:
        return self.count * self.length_ms


class Rate:
    """What somebody used. Times must not go back."""

    __slots__ = ("_used", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._used: deque[list[float]] = deque(maxlen=windows.count)

    def add(self, amount: float, now_ms: float) -> None:
        used = self._used
        if not used or now_ms - used[-1][0] >= self._windows.length_ms:
            used.append([now_ms, 0.0])
        used[-1][1] += amount

    def quiet_ms(self, per_second_max: float, now_ms: float) -> int:
        """How long to be quiet until the rate is down to the limit; 0 within it."""
        total = self._total(now_ms)
        span_ms = self._span_ms(now_ms)
        over = total / (span_ms / 1000) - per_second_max
        return round(over / per_second_max * span_ms) if over > 0 else 0

    def is_idle(self, now_ms: float) -> bool:
        return self._total(now_ms) == 0.0

    def _total(self, now_ms: float) -> float:
        used = self._used
        while used and now_ms - used[0][0] >= self._windows.all_ms:
            used.popleft()
        return sum(amount for _, amount in used)

    def _span_ms(self, now_ms: float) -> float:
        length_ms = self._windows.length_ms
        span_ms = now_ms - self._used[0][0] if self._used else 0.0
        missing = self._windows.count - 1 - int(span_ms // length_ms)
        return span_ms + max(missing, 0) * length_ms
