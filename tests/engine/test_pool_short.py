"""The I/O pool's short way: what the event loop writes itself, and what it leaves to workers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stratamq.engine import pool as pool_module
from stratamq.engine.engine_shard import from_batch
from stratamq.engine.group import Append, Group
from stratamq.engine.pool import IOPool
from stratamq.engine.producers import shard as producers_shard
from stratamq.engine.segment.engine import EngineSegment
from stratamq.log.contract import Step
from stratamq.log.segment_writer import SegmentWriter
from stratamq.log.snapshots import MemorySnapshots
from stratamq.model.errors import DiskFull
from stratamq.model.record import Record
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import Compression, encode_batch
from tests.engine.support import record, spec
from tests.engine.test_pool import Gate, append, entered, pool_of, shard
from tests.waiting import let_run_here

HERE = threading.main_thread().name


class Open(Gate):
    """A commit that nobody holds up, except for `delay_s`."""

    delay_s = 0.0

    def __call__(self, groups: Sequence[Group], *, waits: bool = True) -> Step | None:
        self.open.set()
        let_run_here(self.delay_s)
        return super().__call__(groups)


class Halting(Open):
    """Leaves something to be done, which waits in a thread until it is allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed, self.finishing = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.finished_by = ""

    def __call__(self, groups: Sequence[Group], *, waits: bool = True) -> Step | None:
        super().__call__(groups)
        return None if waits else partial(self.finish, groups)

    def finish(self, groups: Sequence[Group]) -> None:
        self.finished_by = threading.current_thread().name
        self.finishing.set()
        assert self.allowed.wait(10)
        if isinstance(self.error, DiskFull):
            for group in groups:
                group.error = self.error
        elif self.error is not None:
            raise self.error


async def test_what_would_have_to_wait_is_finished_by_the_worker() -> None:
    """Nothing is answered or visible before it, and later appends come after it."""
    commit, target = Halting(), shard(flush="os")
    async with pool_of(commit) as pool:
        first = pool.append(append(target, b"x"))
        await asyncio.to_thread(commit.finishing.wait, 10)
        second = pool.append(append(target, b"y"))
        assert not first.done()
        assert target.commits.high_watermark == 0
        commit.allowed.set()
        assert [(await one).base_offset for one in (first, second)] == [0, 1]
    assert commit.finished_by != HERE
    assert len(commit.commits) == 2
    assert target.commits.high_watermark == 2


@pytest.mark.parametrize("error", [DiskFull("no space"), RuntimeError("unforeseen")])
async def test_what_cannot_be_finished_fails(error: Exception) -> None:
    commit, target = Halting(), shard(flush="os")
    commit.error = error
    commit.allowed.set()
    async with pool_of(commit) as pool:
        with pytest.raises(type(error)):
            await pool.append(append(target, b"x"))
    assert target.commits.high_watermark == 0


async def test_producers_are_saved_by_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[str] = []
    monkeypatch.setattr(producers_shard, "SNAPSHOT_BATCHES", 2)
    save = MemorySnapshots.save

    def noted(kept: MemorySnapshots, offset: Offset, data: bytes, *, durable: bool = False) -> None:
        saved.append(threading.current_thread().name)
        save(kept, offset, data, durable=durable)

    monkeypatch.setattr(MemorySnapshots, "save", noted)
    commit, target = Open(), shard(flush="os")
    async with pool_of(commit) as pool:
        for number in range(3):
            await pool.append(append(target, b"%d" % number))
    assert HERE in commit.threads
    assert saved
    assert HERE not in saved


async def test_a_small_batch_is_written_at_once() -> None:
    commit = Open()
    target = shard(flush="os")
    async with pool_of(commit) as pool:
        write = pool.append(append(target, b"x", b"y"))
        assert (await write)[:2] == (0, 1)
    assert commit.threads == {HERE}
    assert target.commits.high_watermark == 2


async def test_what_comes_in_one_turn_is_committed_together() -> None:
    commit = Open()
    one, two = shard("s_0", flush="os"), shard("s_1", flush="os")
    async with pool_of(commit) as pool:
        writes = [pool.append(append(target, b"x")) for target in (one, two, one)]
        answers = await asyncio.gather(*writes)
    assert commit.commits == [[("s_0", 2), ("s_1", 1)]]
    assert [answer.base_offset for answer in answers] == [0, 0, 1]
    assert commit.threads == {HERE}


async def test_whoever_comes_behind_takes_those_before_along() -> None:
    """To the worker, in the order in which they came."""
    commit = Open()
    brief = shard(flush="os")
    done: list[int] = []
    async with pool_of(commit) as pool:
        first = pool.append(append(brief, b"x"))
        second = pool.run(brief, lambda: done.append(brief.store.end_offset))
        third = pool.append(append(brief, b"y"))
        await asyncio.gather(first, second, third)
    assert done == [1]
    assert HERE not in commit.threads


async def test_closing_answers_what_was_collected() -> None:
    commit = Open()
    async with pool_of(commit) as pool:
        write = pool.append(append(shard(flush="os"), b"x"))
    assert write.done()


@pytest.mark.parametrize(
    ("config", "size"), [({"flush": "sync"}, 1), ({"flush": "os"}, pool_module.SHORT_BYTES + 1)]
)
async def test_what_may_take_time_is_left_to_a_worker(config: dict[str, str], size: int) -> None:
    commit = Open()
    target = shard(**config)
    async with pool_of(commit) as pool:
        await pool.append(append(target, b"x" * size))
    assert HERE not in commit.threads


async def test_a_small_batch_of_very_many_records_is_left_to_a_worker() -> None:
    """Each of them has rows in the index: what is compressed to nothing takes long all the same."""
    commit, target = Open(), shard(flush="os")
    batch = encode_batch([Record(value=b"")] * 10_000, now_ms=1, compression=Compression.ZSTD)
    assert len(batch) < pool_module.SHORT_BYTES // 10
    async with pool_of(commit) as pool:
        await pool.append(from_batch(target, batch, None, 1 << 20))
    assert HERE not in commit.threads


async def test_nobody_is_overtaken() -> None:
    gate = Gate()
    target = shard(flush="os")
    async with pool_of(gate) as pool:
        large = pool.append(append(target, b"x" * (pool_module.SHORT_BYTES + 1)))
        await entered(gate)
        small = pool.append(append(target, b"y"))
        assert not small.done()
        gate.let_go()
        assert [(await large).base_offset, (await small).base_offset] == [0, 1]


async def test_a_busy_disk_is_waited_for_by_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE_S", 60.0)
    commit = Open()
    target = shard(flush="os")
    async with pool_of(commit) as pool:
        commit.delay_s = 2 * pool_module.SHORT_S
        await pool.append(append(target, b"held up"))
        assert commit.threads == {HERE}
        commit.threads.clear()
        await pool.append(append(target, b"elsewhere"))
        assert HERE not in commit.threads


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE_S", 0.0)
    commit = Open()
    target = shard(flush="os")
    async with pool_of(commit) as pool:
        commit.delay_s = 2 * pool_module.SHORT_S
        await pool.append(append(target, b"held up"))
        await asyncio.sleep(0)
        commit.delay_s = 0.0
        await pool.append(append(target, b"here again"))
    assert commit.threads == {HERE}


async def test_a_refusal_is_told_as_by_a_worker() -> None:
    commit = Open()
    target = shard(flush="os")
    async with pool_of(commit) as pool:
        commit.fail["s_0"] = DiskFull("no room")
        with pytest.raises(DiskFull):
            await pool.append(append(target, b"x"))
        commit.fail.clear()
        assert (await pool.append(append(target, b"x"))).base_offset == 0


async def test_a_segment_is_never_rolled_by_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rolling syncs, and writes files."""
    rolled: list[str] = []
    engine = EngineSegment(tmp_path)
    await engine.open()
    made = spec(segment_bytes=1024)
    await engine.create_shard(made)
    real_roll = SegmentWriter.roll

    def roll(self: SegmentWriter, base: Offset | None = None) -> None:
        rolled.append(threading.current_thread().name)
        real_roll(self, base)

    monkeypatch.setattr(SegmentWriter, "roll", roll)
    for _ in range(40):
        await engine.batch_write(made.name, [record(b"x" * 200)])
    assert len(engine.segments(made.name)) > 5
    assert rolled
    assert HERE not in rolled
    await engine.close()


# -- without a future: the answer is told ----------------------------------------------------------


def begin(pool: IOPool, request: Append, told: list[Any]) -> None:
    request.done = told.append
    pool.begin(request)


@pytest.mark.parametrize("flush", ["os", "sync"])
async def test_what_is_begun_keeps_its_place_among_those_who_wait(flush: str) -> None:
    commit = Open()
    told: list[Any] = []
    target = shard(flush=flush)
    async with pool_of(commit) as pool:
        begin(pool, append(target, b"a"), told)
        second = pool.append(append(target, b"b"))
        begin(pool, append(target, b"c"), told)
        await second
        await pool.drain()
    assert [answer[0] for answer in told] == [0, 2]
    assert (await second)[0] == 1


async def test_a_failure_is_told() -> None:
    commit = Open()
    told: list[Any] = []
    commit.fail["*"] = DiskFull("no space left")
    async with pool_of(commit) as pool:
        begin(pool, append(shard(flush="os"), b"a"), told)
        await pool.drain()
    assert told == [commit.fail["*"]]


async def test_whoever_fails_at_its_answer_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    def fail(answer: object) -> None:
        raise RuntimeError("a bug")

    commit = Open()
    told: list[Any] = []
    target = shard(flush="os")
    async with pool_of(commit) as pool:
        first = append(target, b"a")
        first.done = fail
        pool.begin(first)
        begin(pool, append(target, b"b"), told)
        await pool.drain()
    assert [answer[0] for answer in told] == [1]
    assert "a producer failed at its answer" in caplog.text


async def test_whoever_comes_again_at_once_comes_behind_those_who_waited() -> None:
    """The lane is full: the second request waits for the first, which begins a third when it is
    told."""
    commit = Gate()
    told: list[Any] = []
    target = shard(flush="os")
    async with pool_of(commit, queue_requests_max=1) as pool:
        first = append(target, b"a")
        first.done = lambda answer: begin(pool, append(target, b"c"), told)
        pool.begin(first)
        waiting = pool.append(append(target, b"b"))
        commit.let_go()
        assert (await waiting)[0] == 1
        await pool.drain()
    assert [answer[0] for answer in told] == [2]
