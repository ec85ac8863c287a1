"""Work that nobody waits for yet: fetching and unpacking what a reader will want next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from stratamq.model.errors import StrataError

log = logging.getLogger(__name__)


class Ahead:
    """A few threads and a short line before them. When the line is full, work is left out: whoever
    needs it does it then. Failures are for those who come after, and meet them themselves."""

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
