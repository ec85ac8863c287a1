"""Long work on the event loop: others get their turns, and those who use little come first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from stratamq.broker.kafka.turns import CLIENT, TURN_S, ClientShare, in_turns, paced, turns
from tests.waiting import keep_busy, until


def on_behalf_of(client: ClientShare, work: object) -> asyncio.Task[None]:
    context = copy_context()
    context.run(CLIENT.set, client)
    return asyncio.get_running_loop().create_task(work, context=context)  # type: ignore[arg-type]


async def ticks(during: asyncio.Task[None]) -> int:
    """How often the loop went around meanwhile."""
    count = 0
    while not during.done():
        await asyncio.sleep(0)
        count += 1
    return count


async def test_the_loop_goes_around_while_the_work_goes_on() -> None:
    done: list[int] = []

    async def work() -> None:
        async for item in paced(range(50)):
            keep_busy(TURN_S / 5)
            done.append(item)

    assert await ticks(asyncio.create_task(work())) >= 10
    assert done == list(range(50))


async def test_short_work_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine even this may take a turn; then nothing would be said."""
    monkeypatch.setattr("stratamq.broker.kafka.turns.TURN_S", 60.0)

    async def work() -> None:
        assert [item async for item in paced("abc")] == ["a", "b", "c"]

    assert await ticks(asyncio.create_task(work())) <= 2


async def test_a_generator_in_turns() -> None:
    def steps() -> Iterator[None]:
        for _ in range(20):
            keep_busy(TURN_S)
            yield
        return "result"

    result: list[str] = []

    async def work() -> None:
        result.append(await in_turns(steps()))  # type: ignore[arg-type]

    assert await ticks(asyncio.create_task(work())) >= 20
    assert result == ["result"]


async def test_what_raises_in_a_turn_raises() -> None:
    def steps() -> Iterator[None]:
        yield
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await in_turns(steps())  # type: ignore[arg-type]


async def test_one_of_many_gets_a_turn_in_each_iteration() -> None:
    """However many wait, the loop polls for bytes between any two turns."""
    iteration, worked_in = 0, list[int]()

    async def work() -> None:
        async for _ in paced(range(5)):
            keep_busy(TURN_S * 1.1)
            worked_in.append(iteration)

    tasks = [on_behalf_of(ClientShare(), work()) for _ in range(8)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        iteration += 1
    assert len(worked_in) == 40
    after_first = [number for number in worked_in if number > worked_in[0]]
    assert len(set(after_first)) == len(after_first), "two turns in one iteration"


async def test_who_asks_for_little_comes_before_those_who_ask_for_much() -> None:
    """Twenty pieces of work of one client wait; that of another is done after a turn or two."""
    turns_before: list[int] = []
    given = 0

    async def long_work() -> None:
        nonlocal given
        async for _ in paced(range(10)):
            keep_busy(TURN_S * 1.1)
            given += 1

    async def short_work() -> None:
        before = given
        async for _ in paced(range(3)):
            keep_busy(TURN_S * 1.1)
        turns_before.append(given - before)

    greedy = ClientShare()
    tasks = [on_behalf_of(greedy, long_work()) for _ in range(20)]
    await until(lambda: given >= 40)
    await on_behalf_of(ClientShare(), short_work())
    await asyncio.gather(*tasks)
    assert turns_before[0] <= 10, "of 160"


async def test_idling_saves_nothing_up() -> None:
    """A client that was idle while others worked shares with them, and does not shut them out."""
    order: list[str] = []

    async def work(name: str) -> None:
        async for _ in paced(range(6)):
            keep_busy(TURN_S * 1.1)
            order.append(name)

    first = ClientShare()
    await on_behalf_of(first, work("a"))
    await asyncio.gather(on_behalf_of(first, work("a")), on_behalf_of(ClientShare(), work("b")))
    together = order[6:]
    assert "a" in together[:4]
    assert "b" in together[:4]


async def test_work_that_is_cancelled_gives_its_turn_away() -> None:
    async def forever() -> None:
        async for _ in paced(iter(int, 1)):
            keep_busy(TURN_S)

    async def work() -> None:
        async for _ in paced(range(5)):
            keep_busy(TURN_S)

    cancelled = [on_behalf_of(ClientShare(), forever()) for _ in range(3)]
    task = on_behalf_of(ClientShare(), work())
    await asyncio.sleep(0)
    for one in cancelled:
        one.cancel()
    await task
    assert all(one.cancelled() for one in cancelled)
    assert turns() is turns()
