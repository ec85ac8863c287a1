"""Answers in the making: each has a limit, all together have one, and none waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from stratamq.broker.kafka.answer_budget import UNCOUNTED_BYTES, AnswerBudget
from stratamq.model.errors import AnswerTooLarge
from tests.waiting import let_run, until

MIB = 1 << 20


async def reserved(budget: AnswerBudget, wanted_bytes: int, patience_s: float = 100.0) -> int:
    deadline = asyncio.get_running_loop().time() + patience_s
    return await budget.reserve(wanted_bytes, deadline)


async def in_task(work: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await work()

    await asyncio.create_task(run())


async def test_a_part_that_does_not_fit_is_refused_and_a_smaller_one_is_not() -> None:
    budget = AnswerBudget(8 * MIB, answer_bytes_max=MIB)
    answer = budget.begin()
    await answer.add(MIB - 100)
    with pytest.raises(AnswerTooLarge, match=r"kafka.answer.bytes.max"):
        await answer.add(101)
    await answer.add(100)


async def test_it_is_counted_until_its_task_has_ended() -> None:
    budget = AnswerBudget(8 * MIB)

    async def work() -> None:
        await budget.begin().add(MIB)
        assert budget.used_bytes == MIB

    await in_task(work)
    await until(lambda: budget.used_bytes == 0)


async def test_small_answers_are_not_counted() -> None:
    budget = AnswerBudget(0)
    answer = budget.begin()
    for _ in range(16):
        await answer.add(UNCOUNTED_BYTES // 16)
    assert budget.used_bytes == 0


async def test_answers_that_grow_together_do_not_wait_for_each_other() -> None:
    """Ten answers of 1 MiB in a budget of 4: all of them are made, and never much more than that
    is held."""
    budget = AnswerBudget(8 * MIB, answer_bytes_max=2 * MIB)
    most, made = 0, 0

    async def work() -> None:
        nonlocal most, made
        answer = budget.begin()
        for _ in range(16):
            await answer.add(MIB // 16)
            most = max(most, budget.used_bytes)
            await asyncio.sleep(0)
        made += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(work())
    assert made == 10
    assert most <= 4 * MIB + 2 * MIB
    await until(lambda: budget.used_bytes == 0)


async def test_even_the_oldest_waits_for_clients_that_do_not_read() -> None:
    budget = AnswerBudget(2 * MIB)
    budget.take(MIB)  # sent, and not read
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await budget.begin().add(MIB // 2)

    task = asyncio.create_task(work())
    await begun.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    budget.give(MIB)
    await task


async def test_who_gives_up_waiting_holds_nothing() -> None:
    budget = AnswerBudget(2 * MIB)
    budget.take(MIB)

    async def work() -> None:
        await budget.begin().add(MIB // 2)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    budget.give(MIB)
    await until(lambda: budget.used_bytes == 0)


async def test_those_who_wait_are_woken_one_at_a_time_and_in_order() -> None:
    """Hundreds that look whenever a byte is free would use up the event loop."""
    budget = AnswerBudget(8 * MIB)
    budget.take(4 * MIB)
    woken: list[int] = []

    async def work(number: int) -> None:
        await budget.begin().add(MIB)
        woken.append(number)
        await over.wait()

    over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(work(number)) for number in range(6)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        budget.give(2 * MIB)
        await until(lambda: len(woken) == 2)
        assert woken == [0, 2], "each wakes the next, as long as something is left"
        assert budget.used_bytes == 4 * MIB
        budget.give(2 * MIB)
        await until(lambda: len(woken) == 4)
        over.set()
    assert woken == [0, 2, 3, 4, 5]


async def test_the_oldest_is_woken_when_clients_have_read() -> None:
    """Though what is left is too little for it; and when it is made, so is the next."""
    budget = AnswerBudget(8 * MIB, answer_bytes_max=8 * MIB)
    budget.take(4 * MIB)  # sent, and not read
    made: list[int] = []

    async def work(number: int) -> None:
        answer = budget.begin()
        await answer.add(3 * MIB)
        made.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(work(number))
        await asyncio.sleep(0)
        budget.give(2 * MIB)  # each needs more than that
    assert made == [0, 1, 2]


async def test_long_answers_leave_half_of_it_to_fetches() -> None:
    budget = AnswerBudget(4 * MIB, answer_bytes_max=4 * MIB)
    begun = asyncio.Event()

    async def work() -> None:
        await budget.begin().add(MIB)
        await begun.wait()

    tasks = [asyncio.create_task(work()) for _ in range(10)]
    await until(lambda: budget.used_bytes == 2 * MIB)
    assert await reserved(budget, MIB) == MIB
    budget.give(MIB)
    begun.set()
    await asyncio.wait(tasks)
    assert budget.used_bytes == 0


@pytest.mark.parametrize("older", [False, True])
async def test_parts_of_one_answer_may_wait_at_the_same_time(older: bool) -> None:
    """A request is worked on by several tasks, and all count for its answer."""
    budget = AnswerBudget(4 * MIB)
    budget.take(4 * MIB)
    done: list[int] = []

    async def answer_with_parts() -> None:
        answer = budget.begin()

        async def part(number: int) -> None:
            await answer.add(MIB // 2)
            done.append(number)

        await asyncio.gather(*map(part, range(4)))

    async def other() -> None:
        await budget.begin().add(MIB)

    waiting = [asyncio.create_task(other())] if older else []
    waiting.append(asyncio.create_task(answer_with_parts()))
    await let_run()
    assert not done
    budget.give(4 * MIB)
    async with asyncio.timeout(10):
        await asyncio.gather(*waiting)
    assert sorted(done) == [0, 1, 2, 3]
    await until(lambda: budget.used_bytes == 0)


async def test_parts_that_outlive_their_answer_are_not_counted() -> None:
    """As after a time-out: the client has its answer, and the work goes on."""
    budget = AnswerBudget(4 * MIB)
    budget.take(4 * MIB)
    parts: list[asyncio.Task[None]] = []

    async def answered_too_early() -> None:
        answer = budget.begin()
        parts.extend(asyncio.create_task(answer.add(MIB)) for _ in range(3))
        await let_run()

    await asyncio.create_task(answered_too_early())
    await let_run()
    budget.give(4 * MIB)
    async with asyncio.timeout(10):
        await asyncio.gather(*parts)
    assert budget.used_bytes == 0


# -- fetches ---------------------------------------------------------------------------------------


async def test_fetches_get_what_comes_back_in_the_order_in_which_they_came() -> None:
    budget = AnswerBudget(16 * MIB)
    budget.take(16 * MIB)
    order: list[int] = []

    async def fetch(number: int) -> None:
        assert await reserved(budget, MIB) == MIB
        order.append(number)

    waiting = [asyncio.create_task(fetch(number)) for number in range(6)]
    await let_run()
    budget.give(MIB - 1)
    await let_run()
    assert not order, "one byte is missing"
    budget.give(2 * MIB + 1)
    await until(lambda: len(order) == 3)
    await let_run()
    assert (order, budget.used_bytes) == ([0, 1, 2], 16 * MIB)
    budget.give(16 * MIB)
    await asyncio.gather(*waiting)
    assert (order, budget.used_bytes) == ([0, 1, 2, 3, 4, 5], 3 * MIB)


async def test_a_fetch_does_not_pass_one_that_waits_for_more() -> None:
    budget = AnswerBudget(16 * MIB)
    budget.take(16 * MIB - 100)
    large = asyncio.create_task(reserved(budget, MIB))
    await let_run()
    small = asyncio.create_task(reserved(budget, 10))
    await let_run()
    assert not small.done()
    large.cancel()
    assert await small == 10, "the line moves on when its first has left"


async def test_a_fetch_that_wants_very_much_begins_with_a_part_of_it() -> None:
    budget = AnswerBudget(16 * MIB)
    budget.take(14 * MIB)
    assert await reserved(budget, 50 * MIB) == 2 * MIB


async def test_the_time_in_line_ends() -> None:
    budget = AnswerBudget(16 * MIB)
    budget.take(16 * MIB)
    assert await reserved(budget, MIB, 0.01) == 0
    waiting = asyncio.create_task(reserved(budget, MIB))
    await let_run()
    budget.end_turns()
    assert await waiting == 0
    assert budget.used_bytes == 16 * MIB


async def test_a_fetch_that_goes_away_with_its_grant_gives_it_back() -> None:
    budget = AnswerBudget(16 * MIB)
    budget.take(16 * MIB)
    gone, following = (asyncio.create_task(reserved(budget, 16 * MIB)) for _ in range(2))
    await let_run()
    budget.give(16 * MIB)
    asyncio.get_running_loop().call_soon(gone.cancel)  # granted, and its task has not run yet
    async with asyncio.timeout(10):
        assert await following == 16 * MIB
    assert gone.cancelled()
    assert budget.used_bytes == 16 * MIB


async def test_what_was_read_and_is_counted_as_an_answer_is_not_granted_to_others() -> None:
    budget = AnswerBudget(2 * MIB)
    assert await reserved(budget, 2 * MIB) == 2 * MIB
    waiting = asyncio.create_task(reserved(budget, MIB))
    await let_run()
    budget.give(2 * MIB)  # it was read
    budget.take(2 * MIB)  # and has to be sent
    await let_run()
    assert not waiting.done()
    budget.give(2 * MIB)
    assert await waiting == MIB
