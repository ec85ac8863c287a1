"""Keeps Python's garbage collector from stopping a node for long, and freed memory from staying.

A full collection looks at every object that there is, and nothing else runs meanwhile: 80 ms for
the metadata of a thousand topics, 200 ms while large requests are read. Almost nothing of it is
garbage. What a node holds lives long, and what it is done with is freed at once, without the
collector, because it is in no cycle of references (tests/server/test_freed.py).

So what has survived two collections is frozen: later ones do not look at it again, and no
collection looks at more than the objects of the last few thousand requests. Cycles among frozen
objects would never be freed, so when memory holds twice as many objects as after the last review,
everything is looked at once more. That stops the node too, so it is asked for once a minute and not
with each collection: objects that come all at once, as those of a topic of 10,000 partitions, have
one review, and those of a large request are gone by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

YOUNGEST = 0
"""The generation that every object begins in."""

BLOCKS_MIN = 500_000
"""Below so many blocks of memory a review is not worth its time."""

REVIEW_PAUSE_S = 60.0
"""From one look at whether a review is due to the next."""


class Frozen:
    """Objects that the collector of this process does not look at."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        gc.freeze()
        self._reviewed_blocks = sys.getallocatedblocks()
        self._next = loop.call_later(REVIEW_PAUSE_S, self._look)

    def collected(self, phase: str, info: dict[str, Any]) -> None:
        """Called by the collector, in whichever thread it runs."""
        if phase == "stop" and info["generation"] > YOUNGEST:
            gc.freeze()

    def _look(self) -> None:
        if sys.getallocatedblocks() > max(2 * self._reviewed_blocks, BLOCKS_MIN):
            self.review()
        self._next = self._loop.call_later(REVIEW_PAUSE_S, self._look)

    def review(self) -> None:
        """Collect what became garbage since it was frozen."""
        gc.unfreeze()
        gc.collect()  # which freezes what is left
        self._reviewed_blocks = sys.getallocatedblocks()

    def end(self) -> None:
        self._next.cancel()
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
