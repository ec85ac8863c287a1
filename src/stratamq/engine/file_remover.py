"""A thread that frees removed files, so that no writer and no event loop waits for it."""

from __future__ import annotations

import contextlib
import os
import threading
from queue import SimpleQueue

from stratamq.log.freeing import free

WAITING_MAX = 64
"""Removed files that wait with their descriptors. Above (a large topic was deleted): they are
closed by the thread that removed them, since descriptors are scarce too."""


class FileRemover:
    """Takes descriptors of removed files and closes them, large files step by step.

    `free_later` may be called from any thread at any time, also by a destructor: it takes no lock.
    Before `start` and after `close` it closes the file itself.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[int | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running = False

    def start(self) -> None:
        self._running = True
        self._thread = threading.Thread(target=self._run, name="stratamq-remove", daemon=True)
        self._thread.start()

    def free_later(self, fd: int) -> None:
        if self._running and self._waiting.qsize() < WAITING_MAX:
            self._waiting.put(fd)
        else:
            os.close(fd)

    def close(self) -> None:
        """Close the files that are left without taking time over them."""
        self._running = False
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        while not self._waiting.empty():  # put by a thread that had just seen it running
            if (fd := self._waiting.get()) is not None:
                os.close(fd)

    def _run(self) -> None:
        while (fd := self._waiting.get()) is not None:
            with contextlib.suppress(OSError):
                (free if self._running else os.close)(fd)
