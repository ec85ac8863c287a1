"""Whatever grows with what clients do stops at its limit, and goes on when there is less of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.log import epochs
from stratamq.model.clock import ManualClock
from stratamq.model.errors import CapacityExceeded
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from tests.engine.conftest import ENGINES
from tests.engine.support import (
    NOW,
    S,
    batch,
    offsets,
    produced,
    read_all,
    record,
    spec,
    write_all,
    write_mark,
)

Open = Callable[..., AbstractAsyncContextManager[StorageEngine]]


@pytest.fixture(params=list(ENGINES))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """An engine with the given limits, on the same files each time."""

    @asynccontextmanager
    async def with_limits(**limits: int) -> AsyncIterator[StorageEngine]:
        made = EngineLimits(workers=2, reader_threads=2, **limits)  # type: ignore[arg-type]
        engine = ENGINES[request.param](tmp_path, clock=ManualClock(NOW), limits=made)
        await engine.open()
        yield engine
        await engine.close()

    return with_limits


# -- deletion marks --------------------------------------------------------------------------------


@pytest.mark.parametrize("indexed", [True, False])
async def test_deleted_records_that_are_still_in_the_files(opened: Open, indexed: bool) -> None:
    """A deletion is whole or refused; compaction makes new ones possible."""
    async with opened(deletion_marks_max=3) as engine:
        await engine.create_shard(spec(index_key=indexed))
        await write_all(engine, [record(b"%d" % n, b"many" if n < 4 else b"two") for n in range(6)])
        with pytest.raises(CapacityExceeded, match=r"deletions\.per\.shard\.max is 3"):
            await engine.delete_by_key(S, b"many")
        assert offsets(await read_all(engine)) == [0, 1, 2, 3, 4, 5]
        assert await engine.delete_by_key(S, b"two") == 2
        assert await engine.delete_by_offset(S, Offset(0))
        with pytest.raises(CapacityExceeded, match="would make 4"):
            await engine.delete_by_offset(S, Offset(1))
        assert not await engine.delete_by_offset(S, Offset(0)), "it is deleted already"
        await engine.roll(S)
        await engine.compact(S)
        assert await engine.delete_by_key(S, b"many") == 3
        assert offsets(await read_all(engine)) == []


async def test_marks_of_an_earlier_larger_limit_stay(opened: Open) -> None:
    async with opened(deletion_marks_max=10) as engine:
        await engine.create_shard(spec(memory_persist=True))
        await write_all(engine, [record(b"%d" % n, b"k") for n in range(6)])
        assert await engine.delete_by_key(S, b"k") == 6
        await write_all(engine, [record(b"again", b"k")])
    async with opened(deletion_marks_max=2) as engine:
        await engine.create_shard(spec(memory_persist=True))
        assert offsets(await read_all(engine)) == [6]
        with pytest.raises(CapacityExceeded):
            await engine.delete_by_key(S, b"k")
        await engine.trim(S, Offset(6))
        assert await engine.delete_by_key(S, b"k") == 1


# -- transactions ----------------------------------------------------------------------------------


async def abort(engine: StorageEngine, pid: int, sequence: int) -> Offset:
    data = produced(b"v", pid=pid, sequence=sequence, transactional=True)
    await engine.append_batch(S, data)
    return await write_mark(engine, pid, commit=False)


async def test_aborted_transactions_of_a_shard(opened: Open) -> None:
    async with opened(aborted_transactions_max=2) as engine:
        await engine.create_shard(spec())
        open_before = produced(b"v", pid=8, transactional=True)
        await engine.append_batch(S, open_before)
        await abort(engine, 7, 0)
        second = await abort(engine, 7, 1)
        with pytest.raises(CapacityExceeded, match=r"transactions\.aborted\.per\.shard\.max is 2"):
            await abort(engine, 7, 2)
        await engine.append_batch(S, produced(b"no transaction", pid=5))
        await engine.append_batch(S, produced(b"w", pid=8, sequence=1, transactional=True))
        await write_mark(engine, 8, commit=True)
        await engine.trim(S, Offset(second + 1))
        await abort(engine, 7, 2)


# -- leader epochs ---------------------------------------------------------------------------------


async def test_leader_epochs_of_a_shard(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten; where it ended is not answered wrongly."""
    monkeypatch.setattr(epochs, "EPOCHS_MAX", 3)
    kept = ((4, 4), (5, 5), (6, 6))
    async with opened() as engine:
        await engine.create_shard(spec(memory_persist=True))
        for number in range(7):
            await engine.append_batch(S, batch(b"v"), LeaderEpoch(number))
        assert engine.epochs(S) == kept
    async with opened() as engine:
        await engine.create_shard(spec(memory_persist=True))
        assert engine.epochs(S) == kept
        assert engine.end_of_epoch(S, LeaderEpoch(3)) == (-1, -1)
        assert engine.end_of_epoch(S, LeaderEpoch(4)) == (4, 5)
        assert await engine.offset_by_timestamp(S, TimestampMs(0)) == 0
