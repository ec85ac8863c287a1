"""Bytes of requests that came in and are not answered yet, over all connections.

A small request is counted when it has come. A large one is admitted first: all its bytes are
counted before the rest of them is read, so that requests are received one after the other and not
all of them halfway. Who has to wait is let in, in order, when others were answered.

    over the limit                  what happens
    a request of up to 64 KiB       comes in, unless its connection has more than that under way
    a larger one                    waits to be admitted
    one of more than 1 MiB          the same; together they have half of the limit, so that smaller
                                    ones are not kept waiting by them. One that is larger than that
                                    is admitted alone

A size costs its sender nothing. So, while others wait, an admitted request has to come at a certain
speed; one that is slower is cut off.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

SMALL_BYTES = 64 << 10
MIDDLE_BYTES = (1 << 20) + SMALL_BYTES
"""As large as the buffers that are used again: what a producer sends by default."""

PATIENCE_S = 5.0
SPEED_MIN = 1 << 20
"""Bytes per second, from the moment of admission on; looked at when that is PATIENCE_S ago."""


class BudgetHolder(Protocol):
    """A connection, as far as the budget is concerned."""

    @property
    def charged_bytes(self) -> int:
        """What of the budget it has."""

    @property
    def missing_bytes(self) -> int:
        """What has not come yet of its large request."""

    def budget_is_back(self) -> None:
        """It may read on; the missing bytes of its large request are charged."""

    def cut_off(self, reason: str) -> None:
        """Close the connection."""


class RequestBudget:
    """Counts for all connections of a listener."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        """Grows with what comes in. `discharge` gives it back; where nothing had to be admitted and
        nobody waits, the holder does it by itself."""
        self._admitted = 0
        self._large = 0
        self.waiting: dict[BudgetHolder, int] = {}
        self.waiting_large: dict[BudgetHolder, int] = {}
        """Who waits to read on, in order; by the sizes of large requests, 0 for others."""
        self._arriving: dict[BudgetHolder, tuple[float, int]] = {}
        self._look: asyncio.TimerHandle | None = None

    def discharge(self, size_bytes: int, admitted_bytes: int = 0) -> None:
        """What came in was answered or dropped; `admitted_bytes` of it is a request that had to be
        admitted."""
        self.used_bytes -= size_bytes
        if admitted_bytes:
            self._admitted -= 1
            self._large -= admitted_bytes if admitted_bytes > MIDDLE_BYTES else 0
        if self.waiting or self.waiting_large:
            self._let_in()

    def may_read(self, holder: BudgetHolder) -> bool:
        """Whether a connection without a large request may read on. If not, it is called later."""
        if self.used_bytes <= self.bytes_max or holder.charged_bytes <= SMALL_BYTES:
            return True
        self.waiting[holder] = 0
        return False

    def admit(self, holder: BudgetHolder, size_bytes: int) -> bool:
        """Whether a large request of this size may come in now. If not, its connection is called
        later; either way its missing bytes are charged then."""
        waiting = self.waiting_large if size_bytes > MIDDLE_BYTES else self.waiting
        if not waiting and self._fits(holder, size_bytes):
            self.let_come(holder, size_bytes)
            return True
        waiting[holder] = size_bytes
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(PATIENCE_S, self._look_for_slow)
        return False

    def let_come(self, holder: BudgetHolder, size_bytes: int) -> None:
        """Admit a large request whatever it costs: one that has come already."""
        missing = holder.missing_bytes
        self.used_bytes += missing
        self._admitted += 1
        self._large += size_bytes if size_bytes > MIDDLE_BYTES else 0
        self._arriving[holder] = asyncio.get_running_loop().time(), missing

    def arrived(self, holder: BudgetHolder) -> None:
        """Its large request is whole."""
        self._arriving.pop(holder, None)

    def forget(self, holder: BudgetHolder) -> None:
        self.waiting.pop(holder, None)
        self.waiting_large.pop(holder, None)
        self._arriving.pop(holder, None)
        self._let_in()

    def _fits(self, holder: BudgetHolder, size_bytes: int) -> bool:
        large_max = self.bytes_max // 2
        if size_bytes > MIDDLE_BYTES and self._large and self._large + size_bytes > large_max:
            return False
        return self.used_bytes + holder.missing_bytes <= self.bytes_max or not self._admitted

    def _let_in(self) -> None:
        for waiting in (self.waiting, self.waiting_large):
            while waiting:
                holder, size_bytes = next(iter(waiting.items()))
                if not size_bytes:
                    if self.used_bytes > self.bytes_max:
                        break
                elif not self._fits(holder, size_bytes):
                    break
                else:
                    self.let_come(holder, size_bytes)
                del waiting[holder]
                holder.budget_is_back()

    def _look_for_slow(self) -> None:
        self._look = None
        if not self.waiting and not self.waiting_large:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        for holder, (since, missing) in list(self._arriving.items()):
            took_s, came = now - since, missing - holder.missing_bytes
            if took_s >= PATIENCE_S and came < took_s * SPEED_MIN:
                holder.cut_off("kafka.request.bytes.max is reached, and this request came slowly")
        self._look = loop.call_later(PATIENCE_S / 5, self._look_for_slow)
