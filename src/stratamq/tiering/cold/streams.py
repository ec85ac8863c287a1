"""Who reads on, and who jumps: told from the places where reads began and ended."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
P = TypeVar("P")

ENDS_MAX = 4096


class Streams(Generic[K, P]):
    """Remembers where reads ended, and where their readers were then. No reader has to say who it
    is, and one that leaves is forgotten in time."""

    def __init__(self, ends_max: int = ENDS_MAX) -> None:
        self._ends_max = ends_max
        self._lock = threading.Lock()
        self._ends: OrderedDict[tuple[K, int], P] = OrderedDict()

    def follow(self, log: K, start: int, end: int, place: P) -> P | None:
        """Where the reader was before, if the read from `start` to `end` goes on with an earlier
        one; None for one that jumped. `place` is where it is now."""
        with self._lock:
            before = self._ends.pop((log, start), None)
            self._ends[log, end] = place
            self._ends.move_to_end((log, end))
            if len(self._ends) > self._ends_max:
                self._ends.popitem(last=False)
        return before
