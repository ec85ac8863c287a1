"""Threads that wait for the event loop: with an end, always."""

from __future__ import annotations

import asyncio

import pytest

from stratamq.model.errors import Closed, StoreUnavailable
from stratamq.tiering.cold.objects import Bridge


async def test_threads_get_results_and_errors() -> None:
    bridge = Bridge(asyncio.get_running_loop(), 5_000)

    async def good() -> int:
        await asyncio.sleep(0)
        return 5

    async def bad() -> int:
        raise StoreUnavailable("down")

    assert await asyncio.to_thread(bridge.call, good) == 5
    with pytest.raises(StoreUnavailable, match="down"):
        await asyncio.to_thread(bridge.call, bad)
    assert not bridge._pending


async def test_what_takes_too_long_is_given_up() -> None:
    bridge = Bridge(asyncio.get_running_loop(), 20)
    ended = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(StoreUnavailable, match=r"0\.02 s"):
        await asyncio.to_thread(bridge.call, slow)
    await asyncio.wait_for(ended.wait(), 5)


async def test_shutting_down_ends_every_wait_with_a_clear_error() -> None:
    bridge = Bridge(asyncio.get_running_loop(), 60_000)
    begun = asyncio.Event()

    async def slow() -> None:
        begun.set()
        await asyncio.Event().wait()

    waits = [asyncio.create_task(asyncio.to_thread(bridge.call, slow)) for _ in range(3)]
    await begun.wait()
    bridge.close()
    for wait in waits:
        with pytest.raises(Closed):
            await wait
    with pytest.raises(Closed):
        await asyncio.to_thread(bridge.call, slow)


def test_a_loop_that_has_ended_is_closed() -> None:
    loop = asyncio.new_event_loop()
    loop.close()

    async def never() -> None: ...

    with pytest.raises(Closed):
        Bridge(loop, 1000).call(never)
