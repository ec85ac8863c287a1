"""One file into the store, and read back: what is believed to be there was seen there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

from stratamq.meta.tier.files import TierObject
from stratamq.model.clock import Clock
from stratamq.model.errors import CorruptObject, ObjectNotFound, StoreError
from stratamq.model.types import TimestampMs
from stratamq.tiering.mover.conversion import FileSums
from stratamq.tiering.mover.pace import Bandwidth
from stratamq.tiering.stores.contract import ObjectStore
from stratamq.tiering.stores.sums import sum_file
from stratamq.wire.crc import crc32c

Count = Callable[[int], None]
"""Told how many more bytes were dealt with, from any thread."""


class Flights:
    """Objects that are on their way: stored perhaps, and not named by anyone yet. Whoever removes
    what nobody names leaves them alone, and nobody names what is being removed. For one event
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
    """Stores files under keys that nobody has used."""

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
        """Into a local file. CorruptObject unless it is what was made."""
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
        """Objects that nobody will name, now that something failed. What stays is an orphan."""
        for key in keys:
            with contextlib.suppress(StoreError):
                await self._store.delete(key)
