"""Who reads on, and who jumps: told from the places where reads began and ended."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

PLACES_MAX = 4096


class Streams(Generic[K]):
    """Remembers where reads ended. One that begins there goes on with another. No reader has to
    say who it is, and one that leaves is forgotten in time."""

    def __init__(self, places_max: int = PLACES_MAX) -> None:
        self._places_max = places_max
        self._lock = threading.Lock()
        self._ends: OrderedDict[tuple[K, int], None] = OrderedDict()

    def goes_on(self, log: K, start: int, end: int) -> bool:
        """Whether the read from `start` to `end` continues an earlier one. A reader that comes back
        to the same place counts as new: it jumped."""
        with self._lock:
            found = self._ends.pop((log, start), 0) is None
            self._ends[log, end] = None
            self._ends.move_to_end((log, end))
            if len(self._ends) > self._places_max:
                self._ends.popitem(last=False)
        return found
