"""A node that ends at any step of a transaction goes on from there."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.model.errors import StorageError
from stratamq.model.transaction import TransactionState
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.transactions.rig import ID, Rig
from tests.waiting import every, let_run, until

STEPS = 7


async def work(rig: Rig, who: ProducerIdAndEpoch, step: int, *, commit: bool) -> None:
    """One step of a transaction."""
    acts: list[Callable[[], Any]] = [
        lambda: rig.add(who, 0, 1),
        lambda: rig.produce(who, b"a"),
        lambda: rig.produce(who, b"b", partition=1),
        lambda: rig.add_group(who),
        lambda: rig.commit_offset(who, 5),
        lambda: rig.produce(who, b"c", sequence=1),
        lambda: rig.end(who, commit=commit),
    ]
    told = await acts[step]()
    assert told in (0, [0, 0]) or told.error_code == 0


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("restarted_at", range(STEPS + 1))
async def test_a_restart_between_any_two_steps_changes_nothing(
    rig: Rig, restarted_at: int, commit: bool
) -> None:
    who = await rig.producer()
    for step in range(STEPS):
        if step == restarted_at:
            await rig.restart()
        await work(rig, who, step, commit=commit)
    if restarted_at == STEPS:
        await rig.restart()
    assert await rig.read() == ([b"a", b"c"] if commit else [])
    assert await rig.read(partition=1) == ([b"b"] if commit else [])
    assert (await rig.committed_offset(stable=True)).committed_offset == (5 if commit else -1)
    assert await rig.add(who, 0) == [0], "the same producer goes on"


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("restarted_at", range(6))
async def test_a_newer_producer_goes_on_after_a_restart_between_any_two_steps(
    rig: Rig, restarted_at: int, commit: bool
) -> None:
    """It adds nothing itself; the answer to its end is lost with the node, and asked for again."""
    who = await rig.producer()
    acts: list[Callable[[], Any]] = [
        lambda: rig.produce(who, b"a", version=12),
        lambda: rig.produce(who, b"b", partition=1, version=12),
        lambda: rig.commit_offset(who, 5, version=5),
        lambda: rig.produce(who, b"c", sequence=1, version=12),
        lambda: rig.end(who, commit=commit, version=5),
    ]
    for step, act in every(enumerate(acts)):
        if step == restarted_at:
            await rig.restart()
        told = await act()
        assert told == 0 or told.error_code == 0
    if restarted_at == len(acts):
        await rig.restart()
    again = await rig.end(who, commit=commit, version=5)
    assert (again.error_code, again.producer_epoch) == (0, who.epoch + 1)
    assert await rig.read() == ([b"a", b"c"] if commit else [])
    assert await rig.read(partition=1) == ([b"b"] if commit else [])
    assert (await rig.committed_offset(stable=True)).committed_offset == (5 if commit else -1)
    late = await rig.produce(who, b"late", sequence=2, version=12)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    who = ProducerIdAndEpoch(again.producer_id, again.producer_epoch)
    assert (await rig.produce(who, b"d", version=12)).error_code == 0


async def refuse(*args: Any, **named: Any) -> Any:
    raise StorageError("the last thing this node does")


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("fails", ["no mark", "marks but no end"])
async def test_what_was_decided_is_finished_after_a_restart(
    rig: Rig, commit: bool, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratamq.broker.kafka.transactions.coordinator.ANSWER_S", 0.05)
    who = await rig.producer()
    for step in range(STEPS - 1):
        await work(rig, who, step, commit=commit)
    if fails == "no mark":
        monkeypatch.setattr(rig.services.drivers, "write_marker", refuse)
    else:
        monkeypatch.setattr(rig.groups.pending, "ending", refuse)
    await work(rig, who, STEPS - 1, commit=commit)
    one = rig.coordinator.find(ID)
    assert one is not None
    assert one.state is (
        TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
    )
    await rig.restart()

    async def goes_on() -> bool:
        return await rig.add(who, 2) == [0]

    await until(goes_on)
    assert await rig.read() == ([b"a", b"c"] if commit else [])
    assert (await rig.committed_offset(stable=True)).committed_offset == (5 if commit else -1)


async def test_an_end_whose_write_seemed_to_fail_is_finished_by_the_sweep(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.produce(who, b"a")
    real = rig.services.meta.submit

    async def stored_and_lost(*commands: Any) -> int:
        await real(*commands)
        raise StorageError("nobody heard the answer")

    with monkeypatch.context() as broken:
        broken.setattr(rig.services.meta, "submit", stored_and_lost)
        assert (await rig.end(who)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await rig.coordinator.sweep()

    async def has_ended() -> bool:
        return bool((await rig.end(who)).error_code == 0)

    await until(has_ended)
    assert await rig.read() == [b"a"]


async def test_a_completion_whose_write_seemed_to_fail_is_not_done_twice(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would end the next transaction of the same producer."""
    who = await rig.producer()
    await rig.add(who, 0)
    real, retrying = rig.services.meta.submit, asyncio.Event()

    async def stored_and_lost(*commands: Any) -> int:
        revision = await real(*commands)
        if len(commands) == 2:
            retrying.set()
            raise StorageError("nobody heard the answer")
        return revision

    monkeypatch.setattr("stratamq.broker.kafka.transactions.coordinator.ANSWER_S", 0.01)
    with monkeypatch.context() as broken:
        broken.setattr(rig.services.meta, "submit", stored_and_lost)
        assert (await rig.end(who)).error_code == 0
        await retrying.wait()
    assert await rig.add(who, 1) == [0]
    assert await rig.add_group(who) == 0
    assert await rig.commit_offset(who, 7) == 0
    await let_run(0.2)  # more than the first pause before it tries again
    one = rig.coordinator.find(ID)
    assert one is not None
    assert one.state is TransactionState.ONGOING
    assert (await rig.committed_offset()).committed_offset == -1


async def test_time_goes_on_over_a_restart(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.restart()
    rig.clock.advance(60_001)
    await rig.coordinator.sweep()
    assert (await rig.end(who)).error_code == ErrorCode.PRODUCER_FENCED


async def test_many_transactions_at_once(rig: Rig) -> None:
    async def one(number: int) -> None:
        name = f"x{number}"
        who = await rig.producer(name)
        for sequence in range(3):
            assert await rig.add(who, number % 3, id_=name) == [0]
            told = await rig.produce(
                who,
                b"%d" % number,
                sequence=sequence,
                partition=number % 3,
                transactional_id=name,
            )
            assert told.error_code == 0
            assert (await rig.end(who, commit=sequence != 1, id_=name)).error_code == 0

    await asyncio.gather(*(one(number) for number in range(30)))
    read = [await rig.read(partition=number) for number in range(3)]
    assert sorted(itertools.chain(*read)) == sorted(
        b"%d" % number for number in range(30) for _ in "ab"
    )
