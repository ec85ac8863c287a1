"""Files that stay open, or mapped, for their next use: see `OpenFiles` for the contract."""

from __future__ import annotations

import os
from collections.abc import Callable, Sized
from heapq import nsmallest
from itertools import count
from typing import Generic, TypeVar

Content = TypeVar("Content")
Key = tuple[str, bool]
"""A path, and whether it is mapped. Hashing and comparing these runs no Python code, so each step
on the table below is atomic."""

EVICTED_PART = 16
"""A full cache evicts a sixteenth of its files: finding the oldest costs a pass over all."""


class Slot(Generic[Content]):
    """Where one file is or will be. `used` grows with each use."""

    __slots__ = ("content", "used")

    def __init__(self, used: int) -> None:
        self.content: Content | None = None
        self.used = used


class OpenFiles(Generic[Content]):
    """A cache of open files by path. Every method may be called from any thread at any time.

    - A path has at most one open file and one map here. There are `files_max` in all, plus one for
      each thread that is opening a file right now. Above that, those used longest ago leave.
    - The cache and its callers hold a file by reference, and the last of them to drop it closes it:
      eviction never takes a file away from a reader. Descriptors are bounded by `files_max` plus
      what callers hold. Those that are held for long, by writers, are counted in `held`: there are
      that many fewer here, so that both together are within `files_max`.
    - The caller that gives a path another meaning (rename, removal) does that first and calls
      `forget` afterwards. Once `forget` has returned, `find` never returns the file that the path
      meant before, and the cache does not hold it: its space comes back with its last reader.

    There is no lock, and `find` is one look-up. What makes it safe is an order: a slot enters the
    table *before* its file is opened, and a slot that has left the table never enters it again. A
    file that was opened before its path changed therefore is in a slot that `forget` removes, or
    that was removed earlier; the thread that opened it may still put it there, and no other thread
    will find it.
    """

    def __init__(self, files_max: int, held: Sized = ()) -> None:
        self._files_max, self._held = files_max, held
        self._slots: dict[Key, Slot[Content]] = {}
        self._uses = count()

    def __len__(self) -> int:
        return len(self._slots)

    def find(self, key: Key) -> Content | None:
        slot = self._slots.get(key)
        if slot is None:
            return None
        slot.used = next(self._uses)
        return slot.content

    def add(self, key: Key, opening: Callable[[], Content]) -> Content:
        """Open a file that was not found, and keep it. Two threads that miss together open it
        twice, and the cache keeps one of the two."""
        slot = self._slots.setdefault(key, Slot(next(self._uses)))
        try:
            content = opening()
        except BaseException:
            self._slots.pop(key, None)
            raise
        slot.content = content
        files_max = max(self._files_max - len(self._held), 1)
        if len(self._slots) > files_max:
            self.evict(max(files_max // EVICTED_PART, len(self._slots) - files_max))
        return content

    def evict(self, files: int) -> int:
        """Drop that many files, those used longest ago first; how many were dropped."""
        oldest = nsmallest(files, self._slots.copy().items(), key=lambda item: item[1].used)
        for key, _ in oldest:
            self._slots.pop(key, None)
        return len(oldest)

    def forget(self, path: str) -> Content | None:
        """Drop the file and the map of a path; the file, if there was one."""
        self._slots.pop((path, True), None)
        slot = self._slots.pop((path, False), None)
        return None if slot is None else slot.content

    def below(self, folder: str) -> set[str]:
        """Paths inside a folder that have a file here."""
        inside = f"{folder}{os.sep}"
        return {path for path, _ in self._slots.copy() if path.startswith(inside)}
