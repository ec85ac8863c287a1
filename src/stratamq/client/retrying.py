"""Trying again what failed for a reason that may pass."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from stratamq.client.failures import Refusal, as_ours
from stratamq.client.options import ClientOptions
from stratamq.model.errors import StrataError, TimedOut, Unreachable

T = TypeVar("T")
JITTER = 0.2


def pauses_s(options: ClientOptions) -> Iterator[float]:
    """Ever longer ones, each a little by chance, so that many clients do not come back at once."""
    pause_ms = float(options.backoff_ms)
    while True:
        yield pause_ms * random.uniform(1 - JITTER, 1 + JITTER) / 1000
        pause_ms = min(pause_ms * 2, options.backoff_ms_max)


def may_pass(error: StrataError) -> bool:
    if isinstance(error, Refusal):
        return error.code.retriable
    return isinstance(error, Unreachable | TimedOut)


async def retried(
    attempt: Callable[[], Awaitable[T]],
    options: ClientOptions,
    failed: Callable[[StrataError], None] = lambda error: None,
) -> T:
    """What `attempt` returns in the end. `failed` hears of each failure that is tried again.

    After `retry_ms_max` the last failure is raised as the error callers know.
    """
    deadline = asyncio.get_running_loop().time() + options.retry_ms_max / 1000
    for pause_s in pauses_s(options):
        try:
            return await attempt()
        except StrataError as error:
            late = asyncio.get_running_loop().time() + pause_s > deadline
            if late or not may_pass(error):
                raise (as_ours(error) if isinstance(error, Refusal) else error) from None
            failed(error)
        await asyncio.sleep(pause_s)
    raise AssertionError("pauses never end")
