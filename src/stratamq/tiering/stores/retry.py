"""When to try again, and how long to wait before: exponential, with full jitter."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from stratamq.model.errors import CorruptObject, StoreUnavailable

T = TypeVar("T")

PASSING = (StoreUnavailable, CorruptObject)
"""What may be otherwise the next time. Bytes that were spoilt on the way are right the next time;
those that are spoilt in the store stay CorruptObject."""


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
