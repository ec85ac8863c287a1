"""Time-outs that say what took too long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from stratamq.model.errors import TimedOut


@contextlib.asynccontextmanager
async def in_time(seconds: float, what: str) -> AsyncIterator[None]:
    """TimedOut when the body takes longer; it is cancelled where it stands."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise TimedOut(f"{what} took longer than {seconds:g} s") from None
