"""Waiting in tests: for something to come about, never for a time. A slow machine then takes
longer, and the answer is the same.

    until, wait_until       wait for what must happen; `what` is said when it never does
    let_run, let_run_here   give others the time for what must not happen, let something get under
                            way that gives no sign, or take a time by chance before something is
                            killed: on a slow machine such a test shows less, and does not fail
    keep_busy               hold on to the thread for a time
    let_pass                put the event loop's clock forward
    every                   what a loop is about to look at, if there is anything

This is the only file of the tests that sleeps: tests/repo/hygiene.py sees to it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
PAUSE_S = 0.005
PATIENCE_S = 100.0
"""Within the time-out of a test. Those that have a longer one of their own say so."""

What = str | Callable[[], str]


async def until(
    met: Callable[[], object | Awaitable[object]], what: What = "", patience_s: float = PATIENCE_S
) -> None:
    """Until it returns what is true: a plain function, or an asyncio one."""
    ends = time.monotonic() + patience_s
    while True:
        found = met()
        if await found if isinstance(found, Awaitable) else found:
            return
        _check(ends, what)
        await asyncio.sleep(PAUSE_S)


def wait_until(met: Callable[[], object], what: What = "", patience_s: float = PATIENCE_S) -> None:
    """The same where there is no event loop."""
    ends = time.monotonic() + patience_s
    while not met():
        _check(ends, what)
        time.sleep(PAUSE_S)


def _check(ends: float, what: What) -> None:
    if time.monotonic() > ends:
        raise AssertionError(f"it did not come about: {what() if callable(what) else what}")


async def let_run(seconds: float = 0.05) -> None:
    await asyncio.sleep(seconds)


def let_run_here(seconds: float = 0.05) -> None:
    time.sleep(seconds)


def keep_busy(seconds: float) -> None:
    """Work, and give the thread to nobody."""
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


def let_pass(seconds: float) -> None:
    """Put the running loop's clock forward: its timers that are due by then go off in its next
    turn."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


def every(items: Iterable[T]) -> Iterator[T]:
    """For loops that assert: without items, they would pass without having looked at anything."""
    count = 0
    for count, item in enumerate(items, 1):  # noqa: B007
        yield item
    assert count, "there is nothing to look at"
