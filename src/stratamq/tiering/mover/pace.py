"""How fast uploads may be, all of them together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from stratamq.model.errors import Closed


class Bandwidth:
    """So many bytes per second, 0: as many as go. Called from the store's threads.

    A piece is let through when those before it have had their time, so what was sent is never more
    than the rate times the time, and one piece. Unused time is not saved up.
    """

    def __init__(self, bytes_per_second: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_per_second
        self._now = now
        self._lock = threading.Lock()
        self._free_s = 0.0
        self._stopped = threading.Event()

    def take(self, size: int) -> None:
        """Wait until `size` bytes may be sent. Closed once uploads are stopped."""
        delay_s = self.delay_s(size)
        if self._stopped.wait(delay_s) if delay_s > 0 else self._stopped.is_set():
            raise Closed("uploads are stopped")

    def delay_s(self, size: int) -> float:
        """How long these bytes have to wait; their turn is taken."""
        if not self._rate:
            return 0.0
        with self._lock:
            now = self._now()
            begin = max(now, self._free_s)
            self._free_s = begin + size / self._rate
            return begin - now

    def stop(self) -> None:
        """End the uploads that wait, and those that come."""
        self._stopped.set()
