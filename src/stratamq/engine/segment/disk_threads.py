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

Work = Callable[[], None]


class SyncThreads:
    """The calling thread does its share, so that a single call needs no other thread. `run` may be
    called from any thread; before `start` and after `close` the calling thread does all.

    The threads begin with the first calls that they can share. One item in their queue asks one of
    them to help; it finds nothing to do where the calling thread was quicker. A ThreadPoolExecutor
    would make a future with a condition for each: that takes longer than some syncs."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._running = False

    def start(self) -> None:
        self._running = True

    def run(self, calls: Sequence[Work]) -> Sequence[OSError | None]:
        """Make every call; for each of them its error, or None. All have ended on return."""
        if not self._running or len(calls) == 1:
            return one_by_one(calls)
        left = deque(enumerate(calls))
        ended: SimpleQueue[tuple[int, BaseException | None]] = SimpleQueue()

        def work() -> None:
            while True:
                try:
                    number, call = left.popleft()
                except IndexError:
                    return
                try:
                    call()
                except BaseException as error:  # raised by the calling thread
                    ended.put((number, error))
                else:
                    ended.put((number, None))

        if not self._threads:
            self._begin()
        for _ in range(min(SYNC_THREADS, len(calls)) - 1):
            self._asked.put(work)
        work()
        errors: list[OSError | None] = [None] * len(calls)
        for number, error in [ended.get() for _ in calls]:
            if error is not None and not isinstance(error, OSError):
                raise error
            errors[number] = error
        return errors

    def _begin(self) -> None:
        with self._starting:
            if self._running and not self._threads:
                self._threads = [
                    threading.Thread(target=self._help, name=f"stratamq-sync-{number}", daemon=True)
                    for number in range(SYNC_THREADS)
                ]
                for thread in self._threads:
                    thread.start()

    def _help(self) -> None:
        while (work := self._asked.get()) is not None:
            work()

    def close(self) -> None:
        with self._starting:
            self._running = False
            threads, self._threads = self._threads, []
            for _ in threads:
                self._asked.put(None)
        for thread in threads:
            thread.join()
