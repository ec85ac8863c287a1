"""What EngineMemory owes to a history: it may outlive the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.memory.persisted import PersistedShardStore
from stratamq.log.shard_log import FileShardLog
from stratamq.log.snapshots import FileSnapshots
from stratamq.model.clock import ManualClock
from stratamq.model.errors import DiskFull, NotFound, StorageError, StoreUnavailable
from stratamq.model.types import Offset
from tests.engine.memory_history import MemoryHistory, copy_out, tier
from tests.engine.support import (
    NOW,
    S,
    fill_segments,
    offsets,
    produced,
    read_all,
    record,
    spec,
    values,
    write_all,
    write_mark,
)


async def started(folder: Path, **limits: int) -> EngineMemory:
    engine = EngineMemory(folder, clock=ManualClock(NOW), limits=EngineLimits(**limits))  # type: ignore[arg-type]
    await engine.open()
    await engine.create_shard(spec())
    return engine


async def test_after_a_restart_the_log_goes_on_behind_its_history(tmp_path: Path) -> None:
    engine = await started(tmp_path)
    await fill_segments(engine, [record(b"a"), record(b"b")], [record(b"c")], [record(b"lost")])
    history = MemoryHistory()
    await tier(engine, history)
    await engine.close()

    engine = await started(tmp_path)
    engine.attach_history(S, history)
    assert (engine.offsets(S), engine.local_start(S)) == ((0, 3, 3), 3)
    assert values(await read_all(engine)) == [b"a", b"b", b"c"]
    assert await engine.write(S, record(b"d")) == 3
    engine.attach_history(S, history)
    assert values(await read_all(engine)) == [b"a", b"b", b"c", b"d"]
    await engine.close()


async def test_a_log_that_began_anew_keeps_away_from_the_old_history(tmp_path: Path) -> None:
    engine = await started(tmp_path)
    await fill_segments(engine, [record(b"a"), record(b"b")], [])
    history = MemoryHistory()
    await tier(engine, history)
    await engine.close()

    engine = await started(tmp_path)
    await fill_segments(engine, [record(b"x")], [])
    for _ in range(2):
        engine.attach_history(S, history)
        assert await engine.offload(S, Offset(100)) == 0
        await fill_segments(engine, [record(b"y")], [record(b"z")])
    assert values(await read_all(engine)) == [b"x", b"y", b"z", b"y", b"z"]
    await engine.close()


async def test_eviction_gives_back_memory_and_not_history(tmp_path: Path) -> None:
    engine = await started(tmp_path, memory_bytes_max=8000)
    await fill_segments(engine, [record(b"a" * 2000)], [record(b"b" * 2000)], [])
    history = MemoryHistory()
    await copy_out(engine, history, 1)
    engine.attach_history(S, history)
    await engine.write(S, record(b"c" * 4000))
    assert (engine.offsets(S).start, engine.local_start(S)) == (0, 1)
    assert offsets(await read_all(engine)) == [0, 1, 2]
    history.down = True
    with pytest.raises(StoreUnavailable):
        await read_all(engine)
    history.down = False
    await engine.write(S, record(b"d" * 4000))
    assert engine.offsets(S).start >= 2, "what nobody else has is evicted with all before it"
    await engine.close()


# -- with persistence, through crashes -------------------------------------------------------------


async def persisting(folder: Path) -> EngineMemory:
    engine = EngineMemory(folder, clock=ManualClock(NOW), persist_in_background=False)
    await engine.open()
    await engine.create_shard(spec(memory_persist=True))
    return engine


@asynccontextmanager
async def after_a_crash(lost: EngineMemory, folder: Path) -> AsyncIterator[EngineMemory]:
    lost._memory_storage._disk.close()  # the process ends here, and takes its lock along
    engine = await persisting(folder)
    yield engine
    await engine.close()


async def abort(engine: EngineMemory, *sequences: int, pid: int = 7) -> None:
    """Transactions that are rolled back, a record each."""
    for sequence in sequences:
        data = produced(b"aborted", pid=pid, sequence=sequence, transactional=True)
        await engine.append_batch(S, data)
        await write_mark(engine, pid, commit=False)


def known(engine: EngineMemory, end: int) -> tuple[object, object]:
    """Of what lies below `end`."""
    states = [(one.producer_id, one.last_sequence) for one in engine.producers(S)]
    return engine.aborted_transactions(S, Offset(0), Offset(end)), sorted(states)


async def test_a_crash_leaves_what_was_aborted_in_the_cold_part(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await persisting(tmp_path)
    await abort(engine, 0, 1)
    await engine.roll(S)
    await abort(engine, 0, pid=8)
    await engine.roll(S)
    await engine.persist()
    before = known(engine, 6)
    assert len(before[0]) == 3  # type: ignore[arg-type]
    await abort(engine, 2, 3)  # in memory alone
    history = MemoryHistory()
    assert await tier(engine, history, end=4) > 0
    assert engine.local_start(S) == 4
    async with after_a_crash(engine, tmp_path) as engine:
        assert (engine.offsets(S), engine.local_start(S)) == ((0, 6, 6), 4)
        assert known(engine, 6) == before
        assert "no snapshot" not in caplog.text
        await abort(engine, 2)  # the producer's next one, as the log knows it


async def test_what_an_offload_needs_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: set[tuple[Offset, bool]] = set()
    save = FileSnapshots.save

    def noted(self: FileSnapshots, offset: Offset, data: bytes, *, durable: bool = False) -> None:
        save(self, offset, data, durable=durable)
        saved.add((offset, durable))

    monkeypatch.setattr(FileSnapshots, "save", noted)
    engine = await persisting(tmp_path)
    await abort(engine, 0)
    await engine.roll(S)
    await abort(engine, 1)  # in memory alone
    await engine.persist()
    assert saved == {(2, False)}
    assert await tier(engine, MemoryHistory()) > 0
    assert saved == {(2, False), (2, True)}, "of the part on disk, and synced"
    await engine.close()


async def test_a_transaction_whose_mark_is_lost_is_open_again(tmp_path: Path) -> None:
    """It was over when its beginning was offloaded; the part that lasts does not say so."""
    engine = await persisting(tmp_path)
    await write_all(engine, [record(b"0")])
    await engine.append_batch(S, produced(b"1", transactional=True))
    await engine.roll(S)
    await write_all(engine, [record(b"2")])
    await engine.roll(S)
    await engine.persist()
    await write_mark(engine, commit=False)
    assert await tier(engine, MemoryHistory(), end=2) > 0
    assert engine.last_stable_offset(S) == 4
    async with after_a_crash(engine, tmp_path) as engine:
        assert engine.local_start(S) == 2
        assert engine.last_stable_offset(S) == 1
        assert engine.aborted_transactions(S, Offset(0), Offset(3)) == []
        await write_mark(engine, commit=False)
        assert len(engine.aborted_transactions(S, Offset(0), Offset(3))) == 1


async def test_of_many_snapshots_the_one_that_lasts_is_kept(tmp_path: Path) -> None:
    """However far memory has gone on since, and however many were saved of that."""
    engine = await persisting(tmp_path)
    history, shard = MemoryHistory(), engine._shard(S)
    for number in range(3):
        await abort(engine, number)
        await engine.roll(S)
        await engine.persist()
        await tier(engine, history)
    before = known(engine, 6)
    for _ in range(40):
        await write_all(engine, [record(b"v")] * 10)
        shard.producers.save(shard.store)
    assert len(shard.store.snapshots.offsets()) < 12, "most of them went"
    async with after_a_crash(engine, tmp_path) as engine:
        assert engine.local_start(S) == engine.offsets(S).end == 6
        assert known(engine, 6) == before


async def test_opening_after_a_crash_begins_at_what_was_copied_last(tmp_path: Path) -> None:
    engine = await persisting(tmp_path)
    await abort(engine, 0)
    await engine.roll(S)
    await engine.persist()
    await abort(engine, 1)
    async with after_a_crash(engine, tmp_path) as engine:
        store = engine._shard(S).store
        assert list(store.snapshots.offsets()) == [2], "those of what is lost are gone"
        assert known(engine, 2)[1] == [(7, 0)]


async def test_what_goes_to_object_storage_is_on_disk_before(tmp_path: Path) -> None:
    """Else new records would get offsets that history has others at."""
    engine = await persisting(tmp_path)
    await fill_segments(engine, [record(b"a")], [record(b"b")], [record(b"lost")])
    history = MemoryHistory()
    await copy_out(engine, history, 2)
    with pytest.raises(NotFound):
        await engine.export_segment(S, Offset(7), tmp_path / "none")
    async with after_a_crash(engine, tmp_path) as engine:
        engine.attach_history(S, history)
        assert history.segments()[-1].end_offset == 2
        assert await engine.write(S, record(b"next")) == 2
        await engine.roll(S)
        await tier(engine, history)
        assert values(await read_all(engine)) == [b"a", b"b", b"next"]


async def test_what_cannot_go_to_disk_stays_away_from_object_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await persisting(tmp_path)
    await fill_segments(engine, [record(b"a")], [])
    full = DiskFull("no room")

    def refuse(*args: object, **more: object) -> None:
        raise full

    with monkeypatch.context() as broken:
        broken.setattr(FileShardLog, "append", refuse)
        with pytest.raises(StorageError, match="not on disk yet"):
            await engine.export_segment(S, Offset(0), tmp_path / "work")
    store = engine._shard(S).store
    assert isinstance(store, PersistedShardStore)
    assert store.is_to_be_copied(Offset(0))
    await engine.export_segment(S, Offset(0), tmp_path / "work")
    assert not store.is_to_be_copied(Offset(0))
    await engine.close()
