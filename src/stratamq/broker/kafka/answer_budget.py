"""How many bytes of answers may be in memory at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class AnswerBudget:
    """Bytes of answers that were read or encoded and have not left yet, over all connections.

    A handler that reads for a client reserves bytes first and reads no more than it was granted.
    The connection then counts what it has to send, until it is sent. So a thousand clients that ask
    for much and read slowly share one limit. What is counted nowhere may not be held: a fetch that
    waits for more drops what it has read.
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
        """As much of it as is left; 0 when nothing is."""
        granted = min(wanted_bytes, self.left_bytes)
        self.take(granted)
        try:
            yield granted
        finally:
            self.give(granted)

    async def wait(self, timeout_s: float) -> None:
        """Until something is left, but no longer than that."""
        self._freed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._freed.wait()
