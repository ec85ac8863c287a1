"""Threads that do a disk's slow work: freeing removed files, and syncing many files together.

Closing the last descriptor of a removed file frees its blocks, which can take milliseconds: no
writer and no event loop waits for that.

Files are synced together since that is quicker. Measured on ext4, for files that were appended to:
one fdatasync takes 0.3 ms, and 64 files take 64 times as long one after the other, since each waits
for its own commit of the journal. Callers that wait at the same time share one commit: 64 files on
16 threads take 12 to 16 times as long as one. `sync_file_range` on all files before does not help,
because it leaves the journal to each fdatasync. `syncfs` is as fast as the threads, but also waits
for files of others, and its error names no file.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from stratamq.log.disk import one_by_one
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


SYNC_THREADS = 16
"""More would wait for the same commits of the journal. All busy: callers do their work alone."""


class SyncThreads:
    """The calling thread does its share, so that a single call needs no other thread. `run` may be
    called from any thread; before `start` and after `close` the calling thread does all."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def start(self) -> None:
        self._threads = ThreadPoolExecutor(SYNC_THREADS, "stratamq-sync")

    def run(self, calls: Sequence[Callable[[], None]]) -> Sequence[OSError | None]:
        """Make every call; for each of them its error, or None. All have ended on return."""
        threads = self._threads
        if threads is None or len(calls) == 1:
            return one_by_one(calls)
        errors: list[OSError | None] = [None] * len(calls)
        left = deque(enumerate(calls))

        def work() -> None:
            while True:
                try:
                    number, call = left.popleft()
                except IndexError:
                    return
                try:
                    call()
                except OSError as error:
                    errors[number] = error

        helpers = min(SYNC_THREADS, len(calls)) - 1
        begun = [threads.submit(work) for _ in range(helpers)]
        work()
        for helper in begun:
            if not helper.cancel():  # it has begun, and may still be in a call
                helper.result()
        return errors

    def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()
