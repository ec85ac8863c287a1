"""How much of what clients asked for may be in memory at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class Room:
    """Bytes of answers that were read or encoded and have not left yet, over all connections.

    Whoever reads for a client reserves first and reads no more than it got. The connection then
    counts what it has to send, until it is sent. So a thousand clients that ask for much and read
    slowly share one limit.
    """

    def __init__(self, bytes_max: int) -> None:
        self._max = bytes_max
        self._used = 0
        self._freed = asyncio.Event()

    @property
    def used_bytes(self) -> int:
        return self._used

    @property
    def left_bytes(self) -> int:
        return max(self._max - self._used, 0)

    def take(self, size_bytes: int) -> None:
        self._used += size_bytes

    def give(self, size_bytes: int) -> None:
        self._used -= size_bytes
        if self._used < self._max:
            self._freed.set()

    @contextlib.contextmanager
    def reserved(self, wanted_bytes: int) -> Iterator[int]:
        """As much of it as there is room for; 0 when there is none."""
        granted = min(wanted_bytes, self.left_bytes)
        self.take(granted)
        try:
            yield granted
        finally:
            self.give(granted)

    async def wait(self, timeout_s: float) -> None:
        """Until there is room, but no longer than that."""
        self._freed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._freed.wait()
