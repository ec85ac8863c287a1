"""Bytes that came in and are not dealt with yet, over all connections.

What is counted is what is really there, not what a size claims: a claim costs its maker nothing,
and must cost us nothing either. When the limit is met, connections in the midst of a large request
are not read from until others are done. Requests that never end could fill the memory for good, so
after a while the largest unfinished one is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

SMALL_BYTES = 64 << 10
"""Requests below this never wait: with as many connections as are allowed, they fit anyway."""

RELIEF_S = 5.0


class Taker(Protocol):
    """A connection, as far as memory is concerned."""

    @property
    def unfinished_bytes(self) -> int:
        """What it holds of a request that is not whole yet."""

    def memory_is_back(self) -> None: ...

    def cut_off(self, reason: str) -> None: ...


class Memory:
    """Counts for all connections of a listener."""

    def __init__(self, bytes_max: int) -> None:
        self._max = bytes_max
        self._used = 0
        self._waiting: dict[Taker, None] = {}
        self._relief: asyncio.TimerHandle | None = None

    @property
    def used_bytes(self) -> int:
        return self._used

    def charge(self, size_bytes: int) -> None:
        self._used += size_bytes

    def must_wait(self, taker: Taker) -> bool:
        """Whether it has to stop reading; if so, it will be told when to go on."""
        if self._used <= self._max or taker.unfinished_bytes <= SMALL_BYTES:
            return False
        self._waiting[taker] = None
        if self._relief is None:
            self._relief = asyncio.get_running_loop().call_later(RELIEF_S, self._relieve)
        return True

    def discharge(self, size_bytes: int) -> None:
        self._used -= size_bytes
        if self._waiting and self._used <= self._max:
            waiting, self._waiting = self._waiting, {}
            for taker in waiting:
                taker.memory_is_back()

    def forget(self, taker: Taker) -> None:
        self._waiting.pop(taker, None)

    def _relieve(self) -> None:
        """Still full? If unfinished requests are the reason, the largest goes."""
        self._relief = None
        if not self._waiting or self._used <= self._max:
            return
        victim = largest(self._waiting)
        if sum(taker.unfinished_bytes for taker in self._waiting) > self._max // 2:
            victim.cut_off("kafka.request.bytes.max is met, and this was the largest request")
        if self._waiting:
            self._relief = asyncio.get_running_loop().call_later(RELIEF_S, self._relieve)


def largest(takers: Iterable[Taker]) -> Taker:
    return max(takers, key=lambda taker: taker.unfinished_bytes)
