"""Pushing changes to whoever keeps a copy. A watcher that is too slow loses pushes, never
memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stratamq.meta.events import Update
from stratamq.model.errors import Closed


class Watch:
    """One watcher's queue. Updates come in order; those that did not fit are missing, which shows
    in `Update.previous`."""

    def __init__(self, updates_max: int, on_close: Callable[[Watch], None]) -> None:
        self._queue: asyncio.Queue[Update | None] = asyncio.Queue(updates_max)
        self._on_close = on_close
        self._closed = False

    def push(self, update: Update) -> None:
        """Called by the service. Never waits: a full queue drops the update."""
        if not self._queue.full():
            self._queue.put_nowait(update)

    async def next(self) -> Update:
        """The next update; Closed when there will be none."""
        if self._closed and self._queue.empty():
            raise Closed("the watch is closed")
        update = await self._queue.get()
        if update is None:
            raise Closed("the watch is closed")
        return update

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._on_close(self)
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(None)
