"""How long one attempt at a store may take, when it is repeated, and how long to wait before.

Waits grow exponentially, with full jitter: nodes that failed together do not retry together.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from stratamq.model.errors import CorruptObject, StoreUnavailable

SLOW_BYTES_PER_S = 64 * 1024
"""A connection that moves less than this is as good as broken: a trickle of bytes would otherwise
keep a thread for ever, since no single wait is too long."""


class Deadline:
    """One attempt's time, which starts when this is created. Threads check it between two
    pieces."""

    def __init__(
        self, timeout_ms: int, size: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._end = now() + timeout_ms / 1000 + size / SLOW_BYTES_PER_S

    def check(self) -> None:
        if self._now() > self._end:
            raise StoreUnavailable("the store is too slow")

    def extend(self, seconds: float) -> None:
        """Add time that was spent waiting on purpose, which does not count."""
        self._end += seconds


T = TypeVar("T")

PASSING = (StoreUnavailable, CorruptObject)
"""Failures that are retried. Bytes damaged on the way are right the next time; bytes damaged in the
store stay CorruptObject after the last attempt."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts_max: int
    backoff_ms: int
    backoff_ms_max: int
    retry_ms_max: int

    def delay_s(self, failures: int, chance: float) -> float:
        """How long to wait after so many failures; `chance` is drawn from 0 to 1."""
        ceiling = min(self.backoff_ms_max, self.backoff_ms * 2 ** min(failures - 1, 30))
        return float(ceiling * chance / 1000)

    def goes_on(self, failures: int, waited_ms: float) -> bool:
        return failures < self.attempts_max and waited_ms < self.retry_ms_max


class Retrier:
    """Runs attempts by a policy. Clock, sleep and chance can be given, for tests."""

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._policy, self._now, self._sleep, self._chance = policy, now, sleep, chance
        self.retries = 0

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        began, failures = self._now(), 0
        while True:
            try:
                return await attempt()
            except PASSING:
                failures += 1
                if not self._policy.goes_on(failures, (self._now() - began) * 1000):
                    raise
                self.retries += 1
                await self._sleep(self._policy.delay_s(failures, self._chance()))


PIECE_BYTES = 1 << 20


class Body(Protocol):
    def read1(self, amt: int, /) -> bytes: ...


def body_pieces(body: Body, deadline: Deadline) -> Iterator[bytes]:
    """Yield the body as it comes in: `read1` returns the bytes that have arrived. `read` would wait
    for the whole piece, with the deadline passing unseen while bytes trickle in."""
    while piece := body.read1(PIECE_BYTES):
        deadline.check()
        yield piece
