"""The object store for threads that wait: what Iceberg's metadata goes through."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from stratamq.model.errors import TimedOut
from stratamq.tiering.stores.contract import ObjectInfo
from stratamq.tiering.stores.store import Store

T = TypeVar("T")

WAIT_S = 300.0
"""The store gives up long before, by its own settings."""


class StoreBlobs:
    """`lake.tables.blobs.Blobs` over a store whose event loop runs in another thread."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.url = store.url
        self._store = store
        self._loop = loop
        self._infos: dict[str, ObjectInfo] = {}

    def size(self, key: str) -> int:
        """Remembered for the read that comes next: objects do not change."""
        info = self._wait(self._store.head(key))
        self._infos = {key: info}
        return info.size

    def read(self, key: str, start: int, stop: int) -> bytes:
        return self._wait(self._store.get_range(key, start, stop, info=self._infos.get(key)))

    def write(self, key: str, data: bytes) -> None:
        self._wait(self._store.put(key, data))

    def delete(self, key: str) -> None:
        self._wait(self._store.delete(key))

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(WAIT_S)
        except TimeoutError:
            future.cancel()
            raise TimedOut(f"{self.url} did not answer within {WAIT_S:g} s") from None
