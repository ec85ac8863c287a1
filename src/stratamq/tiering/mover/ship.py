"""One file into the store, within the bandwidth, and read back to verify it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

from stratamq.meta.tier.files import TierObject
from stratamq.model.clock import Clock
from stratamq.model.errors import Closed, CorruptObject, ObjectNotFound, StoreError
from stratamq.model.types import TimestampMs
from stratamq.tiering.converter.requests import FileSums
from stratamq.tiering.stores.contract import ObjectStore
from stratamq.tiering.stores.sums import sum_file
from stratamq.wire.crc import crc32c


class Bandwidth:
    """Limits uploads to so many bytes per second, 0: no limit. Called from the store's threads.

    A piece is let through when those before it have had their time, so what was sent is never more
    than the rate times the time, and one piece. Unused time is not saved up.
    """

    def __init__(self, bytes_per_second: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_per_second
        self._now = now
        self._lock = threading.Lock()
        self._free_s = 0.0
        self._stopped = threading.Event()

    def take(self, size: int) -> None:
        """Wait until `size` bytes may be sent. Closed once uploads are stopped."""
        delay_s = self.delay_s(size)
        if self._stopped.wait(delay_s) if delay_s > 0 else self._stopped.is_set():
            raise Closed("uploads are stopped")

    def delay_s(self, size: int) -> float:
        """Take a turn for these bytes, and return how long they have to wait for it."""
        if not self._rate:
            return 0.0
        with self._lock:
            now = self._now()
            begin = max(now, self._free_s)
            self._free_s = begin + size / self._rate
            return begin - now

    def stop(self) -> None:
        """End the uploads that wait, and those that come."""
        self._stopped.set()


Count = Callable[[int], None]
"""Called from any thread with the number of bytes that were dealt with since the last call."""


class Flights:
    """Objects that are on their way: stored perhaps, and not named by the Meta Service yet. The
    cleaner leaves them alone, and an object that is being removed cannot be named. For one event
    loop: between two awaits nothing changes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: dict[str, TimestampMs] = {}
        self._going: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._began

    @property
    def oldest_ms(self) -> TimestampMs | None:
        """When the one that has been under way for longest began."""
        return min(self._began.values(), default=None)

    @contextlib.contextmanager
    def of(self, keys: Iterable[str]) -> Iterator[None]:
        """ObjectNotFound when one of them is just being removed."""
        mine = list(keys)
        if gone := self._going.intersection(mine):
            raise ObjectNotFound(f"{min(gone)} was stored too long ago, and goes")
        self._began |= dict.fromkeys(mine, self._clock.now_ms())
        try:
            yield
        finally:
            for key in mine:
                self._began.pop(key, None)

    @contextlib.contextmanager
    def removing(self, key: str) -> Iterator[None]:
        assert key not in self._began, "it was looked at"
        self._going.add(key)
        try:
            yield
        finally:
            self._going.discard(key)


class Shipper:
    """Stores files under keys that were never used before."""

    def __init__(self, store: ObjectStore, bandwidth: Bandwidth) -> None:
        self._store, self._bandwidth = store, bandwidth

    async def upload(
        self, key: str, path: Path, sums: FileSums, count: Count = lambda _: None
    ) -> TierObject:
        """CorruptObject when the file is no longer what it was when it was made."""

        def pace(size: int) -> None:
            self._bandwidth.take(size)
            count(size)

        stored = await self._store.put_file(key, path, if_absent=True, pace=pace)
        if (stored.size, stored.crc32c) not in ((sums.size, sums.crc), (sums.size, None)):
            raise CorruptObject(f"{key}: stored are not the bytes that were made")
        return TierObject(key, sums.size, sums.crc)

    async def verify(self, stored: TierObject, count: Count = lambda _: None) -> None:
        """Read all of it. CorruptObject unless it is what was made."""
        size = crc = 0
        async for piece in self._pieces(stored, count):
            crc = await asyncio.to_thread(crc32c, piece, crc)  # megabytes: not on the loop
            size += len(piece)
        if (size, crc) != (stored.size, stored.crc):
            raise CorruptObject(f"{stored.key}: other bytes came back than were stored")

    async def download(self, stored: TierObject, path: Path, count: Count = lambda _: None) -> None:
        """Copy an object into a local file. CorruptObject unless it is what was stored."""
        with await asyncio.to_thread(path.open, "wb") as file:
            async for piece in self._pieces(stored, count):
                await asyncio.to_thread(file.write, piece)
        found = await asyncio.to_thread(sum_file, path)
        if (found.size, found.crc32c) != (stored.size, stored.crc):
            raise CorruptObject(f"{stored.key}: other bytes came back than were stored")

    async def _pieces(self, stored: TierObject, count: Count) -> AsyncIterator[bytes]:
        async with contextlib.aclosing(self._store.stream(stored.key)) as pieces:
            async for piece in pieces:
                yield piece
                count(len(piece))

    async def discard(self, keys: Iterable[str]) -> None:
        """Delete objects that will not be named, after a failure. What stays is an orphan."""
        for key in keys:
            with contextlib.suppress(StoreError):
                await self._store.delete(key)
