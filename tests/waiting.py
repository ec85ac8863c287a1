"""Waiting in tests: for something to come about, never for a time. A slow machine then takes
longer, and the answer is the same; what never comes about ends with the test's own time-out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(met: Callable[[], bool]) -> None:
    while not met():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def let_pass(seconds: float) -> None:
    """Put the running loop's clock forward: its timers that are due by then go off in its next
    turn."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
