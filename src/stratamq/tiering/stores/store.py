"""The one `ObjectStore`, which fulfils the contract over any backend."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from stratamq.model.errors import Closed, CorruptObject, InvalidInput
from stratamq.tiering.stores.attempts import Deadline, Retrier
from stratamq.tiering.stores.backend import Backend, Head
from stratamq.tiering.stores.contract import (
    PAGE_KEYS_MAX,
    Listed,
    ObjectInfo,
    Pace,
    Page,
    checked_key,
    checked_prefix,
)
from stratamq.tiering.stores.options import StoreLimits
from stratamq.tiering.stores.source import Content
from stratamq.tiering.stores.sums import Sums, decode, sum_bytes, sum_file, windows
from stratamq.tiering.stores.upload import Upload

T = TypeVar("T")

RANGE_BYTES_MAX = 64 << 20
"""The most that one range may hold in memory. Longer reads are streams."""

READ_AHEAD = 1
"""Pieces of a stream that are fetched while one is being used."""


class Store:
    """An object store over a backend. Uploads and reads have threads of their own, so that a
    backlog being moved does not make readers wait."""

    def __init__(
        self,
        url: str,
        backend: Backend,
        limits: StoreLimits | None = None,
        *,
        retrier: Retrier | None = None,
    ) -> None:
        self.url, self._backend = url, backend
        self._limits = limits or StoreLimits()
        self.retrier = retrier or Retrier(self._limits.retry)
        self._writers = ThreadPoolExecutor(self._limits.uploads_max, "store-upload")
        self._readers = ThreadPoolExecutor(self._limits.reads_max, "store-read")
        self._closed = False

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    # -- writing -----------------------------------------------------------------------------------

    async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> ObjectInfo:
        sums = await self._write(lambda: sum_bytes(data))
        return await self._put(key, data, sums, None, if_absent)

    async def put_file(
        self, key: str, path: Path, *, if_absent: bool = False, pace: Pace | None = None
    ) -> ObjectInfo:
        sums = await self._write(lambda: sum_file(path))
        return await self._put(key, path, sums, pace, if_absent)

    async def _put(
        self, key: str, content: Content, sums: Sums, pace: Pace | None, if_absent: bool
    ) -> ObjectInfo:
        upload = Upload(
            backend=self._backend,
            limits=self._limits,
            run=self._write,
            retrier=self.retrier,
            key=checked_key(key),
            content=content,
            sums=sums,
            pace=pace,
            if_absent=if_absent,
        )
        return _info(key, await upload.store())

    async def delete(self, key: str) -> None:
        checked_key(key)
        await self.retrier.run(lambda: self._write(lambda: self._backend.delete(key)))

    async def sweep(self, before_ms: int) -> int:
        return await self.retrier.run(lambda: self._write(lambda: self._backend.sweep(before_ms)))

    # -- reading -----------------------------------------------------------------------------------

    async def head(self, key: str) -> ObjectInfo:
        checked_key(key)
        return await self.retrier.run(lambda: self._head(key))

    async def get_range(
        self, key: str, start: int, stop: int, *, info: ObjectInfo | None = None
    ) -> bytes:
        checked_key(key)
        if not 0 <= start <= stop or stop - start > RANGE_BYTES_MAX:
            raise InvalidInput(f"{key}: {start}..{stop} is no range of {RANGE_BYTES_MAX} bytes")
        return await self.retrier.run(lambda: self._range(key, start, stop, info))

    async def stream(
        self, key: str, start: int = 0, stop: int | None = None, *, info: ObjectInfo | None = None
    ) -> AsyncGenerator[bytes, None]:
        found = info or await self.head(key)
        end = found.size if stop is None else min(stop, found.size)
        reads: deque[asyncio.Task[bytes]] = deque()
        step = self._backend.window_bytes
        try:
            for first, last in windows(start, end, found.sums, step):
                reads.append(asyncio.create_task(self.get_range(key, first, last, info=found)))
                if len(reads) > READ_AHEAD:
                    yield await reads.popleft()
            while reads:
                yield await reads.popleft()
        finally:
            for read in reads:
                read.cancel()
            await asyncio.gather(*reads, return_exceptions=True)

    async def list_page(
        self, prefix: str = "", *, after: str = "", limit: int = PAGE_KEYS_MAX
    ) -> Page:
        checked_prefix(prefix)
        if not 1 <= limit <= PAGE_KEYS_MAX:
            raise InvalidInput(f"a page has 1 to {PAGE_KEYS_MAX} keys, not {limit}")
        return await self.retrier.run(
            lambda: self._read(lambda: self._backend.list_page(prefix, after, limit))
        )

    async def list(self, prefix: str = "") -> AsyncIterator[Listed]:
        after, more = "", True
        while more:
            found, more = await self.list_page(prefix, after=after)
            for each in found:
                yield each
            after, more = (found[-1].key, more) if found else (after, False)

    async def _head(self, key: str) -> ObjectInfo:
        return _info(key, await self._read(lambda: self._backend.head(key)))

    async def _range(self, key: str, start: int, stop: int, info: ObjectInfo | None) -> bytes:
        """Read the blocks around a range, check them all and cut the result to the range."""
        known = info or await self._head(key)
        stop = min(stop, known.size)
        if start >= stop:
            return b""
        first, last = known.sums.widened(start, stop) if known.sums else (start, stop)

        def read() -> bytes:
            deadline = Deadline(self._limits.timeout_ms, last - first)
            data = self._backend.read(key, first, last, deadline)
            if len(data) != last - first:
                raise CorruptObject(f"{key}: {len(data)} bytes instead of {last - first}")
            if known.sums:
                known.sums.check(key, first, data)
            return data[start - first : stop - first]

        return await self._read(read)

    # -- threads -----------------------------------------------------------------------------------

    async def _write(self, work: Callable[[], T]) -> T:
        return await self._run(self._writers, work)

    async def _read(self, work: Callable[[], T]) -> T:
        return await self._run(self._readers, work)

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._closed:
            raise Closed(f"{self.url} is closed")
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    async def close(self) -> None:
        """Wait for requests that are on their way, and accept no new ones."""
        self._closed = True
        for pool in (self._writers, self._readers):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._backend.close)


def _info(key: str, head: Head) -> ObjectInfo:
    sums = decode(key, head.tags.sums) if head.tags else None
    if sums and sums.size != head.size:
        raise CorruptObject(f"{key}: has {head.size} bytes, had {sums.size} when it was stored")
    return ObjectInfo(key, head.size, head.modified_ms, sums)
