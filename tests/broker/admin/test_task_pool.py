"""Work with a time limit: what is answered, what goes on, and how much there may be of it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from stratamq.broker.kafka.admin.task_pool import (
    AT_ONCE,
    REQUESTS_MAX,
    SLOT,
    WORKERS_MAX,
    TaskPool,
)
from tests.waiting import let_run, until

LONG_MS = 600_000


def late(item: int) -> str:
    return f"{item} is late"


async def test_answers_come_in_order_and_few_are_worked_on_at_once() -> None:
    tasks, busy, most = TaskPool(), 0, 0

    async def act(item: int) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await let_run(0.001 * (item % 3))
        busy -= 1
        return f"{item} is done"

    requests = [tasks.each(range(30), act, LONG_MS, late) for _ in range(3)]
    for answers in await asyncio.gather(*requests):
        assert answers == [f"{item} is done" for item in range(30)]
    assert most == AT_ONCE


async def test_a_million_items_cost_no_more_tasks_than_a_few() -> None:
    tasks = TaskPool()

    async def act(item: int) -> int:
        return len(asyncio.all_tasks())

    counts = await tasks.each(range(100_000), act, LONG_MS, lambda _: -1)
    assert max(counts) <= AT_ONCE + 2
    assert min(counts) > 0


async def test_who_runs_out_of_time_is_told_and_the_work_goes_on() -> None:
    tasks, gate, finished = TaskPool(), asyncio.Event(), asyncio.Event()

    async def act(item: int) -> str:
        if item:
            await gate.wait()
            finished.set()
        return "done"

    assert await tasks.each([0, 1], act, 50, late) == ["done", "1 is late"]
    gate.set()
    await asyncio.wait_for(finished.wait(), 5)


async def test_work_without_a_time_limit_is_waited_for() -> None:
    tasks, gate = TaskPool(), asyncio.Event()

    async def act(item: int) -> str:
        await gate.wait()
        return "done"

    waiting = asyncio.create_task(tasks.each([0, 1], act, None, late))
    assert await tasks.each([2], act, 0, late) == ["2 is late"]
    assert not waiting.done()
    gate.set()
    assert await waiting == ["done", "done"]


async def test_work_that_nobody_waits_for_has_a_limit() -> None:
    tasks, gate, begun = TaskPool(), asyncio.Event(), 0

    async def act(item: int) -> str:
        nonlocal begun
        begun += 1
        await gate.wait()
        return "done"

    for _ in range(REQUESTS_MAX):
        assert await tasks.each([7], act, 0, late) == ["7 is late"]
    assert await tasks.each([8], act, 10, late) == ["8 is late"]
    gate.set()
    assert await tasks.each([9], act, LONG_MS, late) == ["done"]
    assert begun == REQUESTS_MAX + 1, "the one without a place was not begun"


async def test_a_bug_is_heard() -> None:
    async def act(item: int) -> str:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        await TaskPool().each([1], act, LONG_MS, late)


async def test_a_stop_ends_what_is_under_way() -> None:
    tasks, begun, ended = TaskPool(), 0, 0

    async def act(item: int) -> str:
        nonlocal begun, ended
        begun += 1
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        ended += 1
        raise asyncio.CancelledError

    waiting = asyncio.create_task(tasks.each([1, 2], act, LONG_MS, late))
    await until(lambda: begun == 2)
    await tasks.stop()
    assert await waiting == ["1 is late", "2 is late"]
    assert ended == 2


async def test_items_that_are_little_work_share_a_slot_and_large_ones_do_not() -> None:
    tasks, busy, most = TaskPool(), [0, 0], [0, 0]

    async def act(units: int) -> int:
        large = units >= SLOT
        busy[large] += 1
        most[large] = max(most[large], busy[large])
        assert busy[0] * 5 + busy[1] * SLOT <= AT_ONCE * SLOT
        await let_run(0.001)
        busy[large] -= 1
        return units

    small, large = [5] * 600, [10 * SLOT] * 20
    for items in (small, large, [*large, *small]):
        assert await tasks.each(items, act, LONG_MS, lambda _: -1, lambda units: units) == items
    assert most == [WORKERS_MAX, AT_ONCE]


async def test_work_that_is_stopped_gives_its_slots_back() -> None:
    tasks, forever = TaskPool(), asyncio.Event()

    async def act(item: int) -> str:
        await forever.wait()
        return "done"

    late_ones = asyncio.create_task(tasks.each(range(30), act, LONG_MS, late))
    await until(lambda: len(asyncio.all_tasks()) > AT_ONCE)
    await tasks.stop()
    assert await late_ones == [late(item) for item in range(30)]
    forever.set()
    assert await tasks.each(range(30), act, LONG_MS, late) == ["done"] * 30
