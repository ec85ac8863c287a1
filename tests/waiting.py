"""Waiting in tests: for something to come about, never for a time. A slow machine then takes
longer, and the answer is the same; what never comes about ends with the test's own time-out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PAUSE_S = 0.005


async def until(met: Callable[[], bool | Awaitable[bool]]) -> None:
    """Asked again and again, a plain function or an asyncio one."""
    while True:
        found = met()
        if found if isinstance(found, bool) else await found:
            return
        await asyncio.sleep(PAUSE_S)


def wait_until(met: Callable[[], bool]) -> None:
    """The same, in tests that are not asyncio's."""
    while not met():
        time.sleep(PAUSE_S)


def let_pass(seconds: float) -> None:
    """Put the running loop's clock forward: its timers that are due by then go off in its next
    turn."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
