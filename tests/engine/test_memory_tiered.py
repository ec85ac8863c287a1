"""What EngineMemory owes to a history: it may outlive the memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory import EngineMemory
from stratamq.model.clock import ManualClock
from stratamq.model.errors import StoreUnavailable
from stratamq.model.types import Offset
from tests.engine.memory_history import MemoryHistory, copy_out, tier
from tests.engine.support import NOW, S, fill_segments, offsets, read_all, record, spec, values


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
