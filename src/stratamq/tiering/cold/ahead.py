"""Reading ahead: which readers go on where they were, and fetching what they will want next."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from stratamq.model.errors import StrataError

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
        """Return where the reader was before, if the read from `start` to `end` goes on with an
        earlier one; None for one that jumped. `place` is where it is now."""
        with self._lock:
            before = self._ends.pop((log, start), None)
            self._ends[log, end] = place
            self._ends.move_to_end((log, end))
            if len(self._ends) > self._ends_max:
                self._ends.popitem(last=False)
        return before


log = logging.getLogger(__name__)


class Ahead:
    """A few threads and a short line before them. When the line is full, work is left out: the
    reader does it when it gets there. Failures are only logged, because the reader will meet them
    itself."""

    def __init__(self, threads: int, pending_max: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "cold-ahead")
        self._room = threading.Semaphore(pending_max)
        self._closed = False

    def submit(self, work: Callable[[], object]) -> bool:
        """Whether it will be done."""
        if self._closed or not self._room.acquire(blocking=False):
            return False
        try:
            self._pool.submit(self._run, work)
        except RuntimeError:  # closed just now
            self._room.release()
            return False
        return True

    def _run(self, work: Callable[[], object]) -> None:
        try:
            if not self._closed:
                work()
        except StrataError as error:
            log.debug("reading ahead: %s", error)
        except Exception:
            log.exception("reading ahead failed")
        finally:
            self._room.release()

    def close(self) -> None:
        """Return when nothing is under way any more."""
        self._closed = True
        self._pool.shutdown(cancel_futures=True)
