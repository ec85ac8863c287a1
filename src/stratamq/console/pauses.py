"""How long the event loop is held up, and by the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

from stratamq.model.counters import Durations

TICK_S = 1.0


class Pauses:
    """Counts from `start` to `stop`. The event loop is seen to be held up by a timer that goes off
    late: rare pauses are missed, those that clients notice are not."""

    def __init__(self) -> None:
        self.loop_lag, self.collections = Durations(), Durations()
        self._began_s = 0.0
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(TICK_S, self._tick, self._loop.time() + TICK_S)
        gc.callbacks.append(self._collected)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.callbacks.remove(self._collected)

    def _tick(self, due_s: float) -> None:
        now_s = self._loop.time()
        self.loop_lag.add(max(now_s - due_s, 0.0))
        self._timer = self._loop.call_at(now_s + TICK_S, self._tick, now_s + TICK_S)

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        """Called by the collector, in whichever thread it runs; nothing else runs meanwhile."""
        if phase == "start":
            self._began_s = time.perf_counter()
        else:
            self.collections.add(time.perf_counter() - self._began_s)
