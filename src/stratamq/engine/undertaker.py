"""Files that were removed are freed by a thread of their own, so that no writer waits for it."""

from __future__ import annotations

import contextlib
import os
import threading
from queue import SimpleQueue

from stratamq.log.freeing import free

WAITING_MAX = 256
"""More files than this at once (a large topic is deleted) are let go of as they come: open files
are a scarce good too."""


class Undertaker:
    """Takes open files that have no name any more. Its thread is there from the first of them."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[int | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closing = False

    def take(self, fd: int) -> None:
        if self._waiting.qsize() >= WAITING_MAX:
            os.close(fd)
            return
        self._waiting.put(fd)
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="undertaker", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Whoever closes an engine is in a hurry: what is left goes at once."""
        self._closing = True
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join()

    def _run(self) -> None:
        while (fd := self._waiting.get()) is not None:
            with contextlib.suppress(OSError):
                (os.close if self._closing else free)(fd)
