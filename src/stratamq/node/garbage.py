"""Keeps Python's garbage collector from stopping a node for long, and freed memory from staying.

A full collection looks at every object that there is, and nothing else runs meanwhile: 80 ms for
the metadata of a thousand topics, every few thousand requests. Almost nothing of it is garbage.
What a node holds lives long, and what it is done with is freed at once, without the collector,
because it is in no cycle of references.

So what has survived a full collection is frozen: later ones do not look at it again. Cycles among
frozen objects would never be freed, so when twice as much is frozen as after the last review,
everything is looked at once more, some time later: a review stops the node too, and objects that
come all at once, as those of a topic of 10,000 partitions, shall have one and not several.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OLDEST = 2
"""The generation of a full collection."""

FROZEN_MIN = 100_000
"""Below this a review is not worth its time."""

REVIEW_WAIT_S = 60.0
"""From when a review is due until it is done."""


class Frozen:
    """Objects that the collector of this process does not look at."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        gc.freeze()
        self._reviewed = gc.get_freeze_count()
        self._is_due = self._ended = False

    def review(self) -> None:
        """Collect what became garbage since it was frozen."""
        self._is_due = False
        if self._ended:
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._reviewed = gc.get_freeze_count()

    def collected(self, phase: str, info: dict[str, Any]) -> None:
        """Called by the collector, in whichever thread it runs."""
        if phase != "stop" or info["generation"] != OLDEST:
            return
        gc.freeze()
        if not self._is_due and gc.get_freeze_count() > max(2 * self._reviewed, FROZEN_MIN):
            self._is_due = True
            self._loop.call_soon_threadsafe(self._loop.call_later, REVIEW_WAIT_S, self.review)

    def end(self) -> None:
        self._ended = True
        gc.unfreeze()


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""The numbers that glibc's mallopt has for them."""

LARGE_BYTES = 4 << 20
HEAPS = 2
"""One for the event loop, one for all other threads."""


def bound_free_memory() -> None:
    """Keep glibc from holding memory that nothing uses. To be called before threads are started.

    Buffers above `LARGE_BYTES` are mappings of their own, which go back to the system when they
    are freed. Left to itself, glibc takes the largest buffer that was freed so far for the limit:
    after one of 32 MiB, smaller ones leave holes in the heap that stay resident. And each of up to
    eight threads per core would have a heap of its own, with its own holes; under the GIL they
    hardly ever allocate at the same time.
    """
    with contextlib.suppress(AttributeError):  # another libc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_ARENA_MAX, HEAPS)
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_TRIM_THRESHOLD, 2 * LARGE_BYTES)


@contextmanager
def long_lived_frozen() -> Iterator[Frozen]:
    """For a process that is a node: begin when it has started."""
    frozen = Frozen(asyncio.get_running_loop())
    gc.callbacks.append(frozen.collected)
    try:
        yield frozen
    finally:
        gc.callbacks.remove(frozen.collected)
        frozen.end()
