"""The I/O pool: grouping, own answers, bounds, isolation, closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from stratamq.engine import engine_shard
from stratamq.engine.contract import AppendResult
from stratamq.engine.group import Append, Group
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.engine.pool import IOPool
from stratamq.engine.shard import Shard
from stratamq.log.contract import Step
from stratamq.model.clock import ManualClock
from stratamq.model.errors import DiskFull, ShardNotFound, ShardPoisoned
from stratamq.model.types import ShardName
from tests.engine.support import batch, decoded, spec, values
from tests.waiting import let_run


class Gate:
    """A commit that waits until it is let through, and remembers what it was given."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.commits: list[list[tuple[str, int]]] = []
        self.threads: set[str] = set()
        self.fail: dict[str, Exception] = {}

    def __call__(self, groups: Sequence[Group], *, waits: bool = True) -> Step | None:
        self.commits.append([(group.shard.name, len(group.batches)) for group in groups])
        self.threads.add(threading.current_thread().name)
        self.entered.set()
        assert self.open.wait(10)
        if "*" in self.fail:
            raise self.fail["*"]
        for group in groups:
            assert group.shard.lock.locked(), "a writer holds its shard"
            if error := self.fail.get(group.shard.name):
                group.error = error
            else:
                group.store.append(group.batches)
        return None

    def let_go(self) -> None:
        self.open.set()


@asynccontextmanager
async def pool_of(gate: Gate, **limits: int) -> AsyncIterator[IOPool]:
    pool = IOPool(gate, ManualClock(), EngineLimits(**({"workers": 1} | limits)))
    pool.start()
    try:
        yield pool
    finally:
        gate.let_go()
        await pool.close()


def shard(name: str = "s_0", pool: IOPool | None = None, **config: object) -> Shard:
    """Its writes are a worker's business, unless `config` says otherwise."""
    made = spec(ShardName(name), **({"flush": "sync"} | config))
    result = Shard(made, MemoryShardStore(made.config), None)
    result.lane = pool.lane_of(name) if pool else 0
    return result


def append(target: Shard, *contents: bytes) -> Append:
    return engine_shard.from_batch(target, batch(*contents), None, 1 << 20)


async def entered(gate: Gate) -> None:
    await asyncio.to_thread(gate.entered.wait, 10)


async def test_what_waits_is_committed_together_and_answered_apart() -> None:
    gate = Gate()
    one, two = shard("s_0"), shard("s_1")
    async with pool_of(gate) as pool:
        first = pool.append(append(one, b"first"))
        await entered(gate)
        waiting = [
            pool.append(append(target, *[b"x"] * count))
            for target, count in ((one, 2), (two, 1), (one, 3), (two, 4))
        ]
        gate.let_go()
        answers = [await first, *(await asyncio.gather(*waiting))]
    assert gate.commits == [[("s_0", 1)], [("s_0", 2), ("s_1", 2)]]
    assert [answer[:2] for answer in answers] == [(0, 0), (1, 2), (0, 0), (3, 5), (1, 4)]
    assert (one.commits.high_watermark, two.commits.high_watermark) == (6, 5)


async def test_a_drain_is_bounded_by_requests() -> None:
    gate = Gate()
    async with pool_of(gate, drain_requests_max=3) as pool:
        target = shard()
        first = pool.append(append(target, b"x"))
        await entered(gate)
        waiting = [pool.append(append(target, b"x")) for _ in range(7)]
        gate.let_go()
        await asyncio.gather(first, *waiting)
    assert [dict(commit)["s_0"] for commit in gate.commits] == [1, 3, 3, 1]


async def test_a_drain_is_bounded_by_bytes() -> None:
    gate = Gate()
    async with pool_of(gate, drain_bytes_max=2500) as pool:
        target = shard()
        first = pool.append(append(target, b"x"))
        await entered(gate)
        waiting = [pool.append(append(target, b"x" * 1000)) for _ in range(6)]
        gate.let_go()
        await asyncio.gather(first, *waiting)
    assert [dict(commit)["s_0"] for commit in gate.commits] == [1, 3, 3]


@pytest.mark.parametrize("bound", [{"queue_requests_max": 4}, {"queue_bytes_max": 4000}])
async def test_a_full_queue_makes_producers_wait(bound: dict[str, int]) -> None:
    gate = Gate()
    async with pool_of(gate, **bound) as pool:
        target = shard()
        writes = [pool.append(append(target, b"%02d" % n + b"x" * 900)) for n in range(20)]
        await entered(gate)
        (lane,) = pool._lanes
        assert lane.requests == 4
        assert lane.bytes <= 4000
        assert lane.queue.qsize() <= 4
        assert len(lane.waiting) == 16
        assert not any(write.done() for write in writes)
        gate.let_go()
        answers = await asyncio.gather(*writes)
        assert (lane.requests, lane.bytes, len(lane.waiting)) == (0, 0, 0)
    assert [answer.base_offset for answer in answers] == list(range(20)), "in the order they came"


async def test_a_request_larger_than_the_queue_goes_alone() -> None:
    gate = Gate()
    gate.let_go()
    async with pool_of(gate, queue_bytes_max=1000) as pool:
        target = shard()
        answers = await asyncio.gather(
            *(pool.append(append(target, b"x" * size)) for size in (5000, 10, 5000))
        )
    assert [answer.base_offset for answer in answers] == [0, 1, 2]


async def test_a_caller_that_gave_up_while_it_waited_never_came_in() -> None:
    gate = Gate()
    async with pool_of(gate, queue_requests_max=1) as pool:
        target = shard()
        first = pool.append(append(target, b"first"))
        await entered(gate)
        second, third = (
            pool.append(append(target, b"second")),
            pool.append(append(target, b"third")),
        )
        second.cancel()
        gate.let_go()
        await asyncio.gather(first, third)
    assert values(decoded(target.store.read(0, 1 << 20, target.store.end_offset))) == [
        b"first",
        b"third",
    ]


async def test_a_caller_that_gave_up_later_is_committed_all_the_same() -> None:
    gate = Gate()
    async with pool_of(gate) as pool:
        target = shard()
        first = pool.append(append(target, b"first"))
        await entered(gate)
        first.cancel()
        gate.let_go()
        second = await pool.append(append(target, b"second"))
    assert second.base_offset == 1
    assert target.commits.high_watermark == 2


async def test_a_failing_shard_does_not_fail_its_neighbours() -> None:
    gate = Gate()
    gate.fail["s_1"] = DiskFull("no room")
    one, two = shard("s_0"), shard("s_1")
    async with pool_of(gate) as pool:
        first = pool.append(append(one, b"x"))
        await entered(gate)
        good, bad = pool.append(append(one, b"y")), pool.append(append(two, b"y"))
        gate.let_go()
        assert (await first).base_offset == 0
        assert (await good).base_offset == 1
        with pytest.raises(DiskFull):
            await bad
        assert (one.commits.high_watermark, two.commits.high_watermark) == (2, 0)
        gate.fail.clear()
        again = await pool.append(append(two, b"room again"))
        assert again.base_offset == 0, "nothing of the failed one was kept"


async def test_a_poisoned_shard_takes_nothing_more() -> None:
    gate = Gate()
    gate.let_go()
    gate.fail["s_0"] = ShardPoisoned("fsync failed")
    async with pool_of(gate) as pool:
        target = shard()
        with pytest.raises(ShardPoisoned):
            await pool.append(append(target, b"x"))
        gate.fail.clear()
        with pytest.raises(ShardPoisoned, match="fsync failed"):
            await pool.append(append(target, b"y"))
    assert len(gate.commits) == 1


async def test_a_failing_commit_answers_everybody() -> None:
    gate = Gate()
    gate.fail["*"] = RuntimeError("a bug")
    async with pool_of(gate) as pool:
        writes = [pool.append(append(shard(f"s_{n}"), b"x")) for n in range(3)]
        gate.let_go()
        for answer in await asyncio.gather(*writes, return_exceptions=True):
            assert isinstance(answer, RuntimeError)
        gate.fail.clear()
        assert (await pool.append(append(shard(), b"x"))).base_offset == 0, "the worker lives"


async def test_other_work_keeps_its_turn() -> None:
    gate = Gate()
    async with pool_of(gate) as pool:
        target = shard()
        first = pool.append(append(target, b"0"))
        await entered(gate)
        second = pool.append(append(target, b"1"))
        seen = pool.run(target, lambda: (target.store.end_offset, target.lock.locked()))
        third = pool.append(append(target, b"2"))
        gate.let_go()
        assert await seen == (2, True)
        assert [(await write).base_offset for write in (first, second, third)] == [0, 1, 2]


async def test_failing_work_concerns_its_caller_alone() -> None:
    gate = Gate()
    gate.let_go()
    async with pool_of(gate) as pool:
        target = shard()
        write = pool.append(append(target, b"0"))
        with pytest.raises(ZeroDivisionError):
            await pool.run(target, lambda: 1 // 0)
        assert (await write).base_offset == 0
        assert not target.lock.locked()


async def test_a_shard_that_was_deleted_meanwhile_is_not_written() -> None:
    gate = Gate()
    async with pool_of(gate) as pool:
        target = shard()
        first = pool.append(append(target, b"x"))
        await entered(gate)
        late = pool.append(append(target, b"late"))
        target.gone = True
        gate.let_go()
        assert (await first).base_offset == 0
        with pytest.raises(ShardNotFound):
            await late


async def test_a_shard_always_has_the_same_worker() -> None:
    gate = Gate()
    gate.let_go()
    async with pool_of(gate, workers=4) as pool:
        lanes = {f"topic_{n}": pool.lane_of(f"topic_{n}") for n in range(100)}
        assert set(lanes.values()) == {0, 1, 2, 3}
        for name in list(lanes)[:20]:
            target = shard(name, pool)
            await asyncio.gather(*(pool.append(append(target, b"x")) for _ in range(3)))
        assert {f"stratamq-write-{n}" for n in range(4)} >= gate.threads
    async with pool_of(Gate(), workers=4) as other:
        assert {name: other.lane_of(name) for name in lanes} == lanes


async def test_closing_answers_what_is_queued_and_what_waits() -> None:
    gate = Gate()
    pool = IOPool(gate, ManualClock(), EngineLimits(workers=1, queue_requests_max=2))
    pool.start()
    target = shard()
    writes = [pool.append(append(target, b"x")) for _ in range(6)]
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    gate.let_go()
    await closing
    answers = [write.result() for write in writes]
    assert [answer.base_offset for answer in answers if isinstance(answer, AppendResult)] == list(
        range(6)
    )
    assert pool._lanes[0].thread is not None
    assert not pool._lanes[0].thread.is_alive()


async def test_draining_waits_for_readers_too() -> None:
    """Also for one whose caller gave up: the store must not be closed under its hands."""
    gate, done = Gate(), threading.Event()
    async with pool_of(gate) as pool:

        def read() -> None:
            assert gate.open.wait(10)
            done.set()

        reading = pool.read(shard(), read)
        await let_run(0.01)
        reading.cancel()
        draining = asyncio.create_task(pool.drain())
        await let_run(0.02)
        assert not draining.done()
        gate.let_go()
        await draining
        assert done.is_set()


async def test_one_call_into_the_loop_answers_a_whole_drain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    calls: list[object] = []
    original = loop.call_soon_threadsafe

    def counted(*args: object, **more: object) -> object:
        calls.append(args)
        return original(*args, **more)  # type: ignore[arg-type]

    gate = Gate()
    async with pool_of(gate) as pool:
        target = shard()
        first = pool.append(append(target, b"x"))
        await entered(gate)
        waiting = [pool.append(append(target, b"x")) for _ in range(200)]
        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        gate.let_go()
        await asyncio.gather(first, *waiting)
        monkeypatch.undo()
    assert len(calls) == 2
