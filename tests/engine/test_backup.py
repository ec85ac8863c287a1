"""Copying an engine's shards: the index is never ahead of the ends that are taken after it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from stratamq.engine.group import Group
from stratamq.engine.pool import IOPool
from stratamq.engine.segment.engine import EngineSegment
from stratamq.engine.segment.storage import SegmentStorage
from stratamq.log.contract import Step
from stratamq.log.index import IndexStore
from stratamq.log.kv import RocksKV
from stratamq.model.record import Record
from tests.engine.support import S, spec


async def test_what_the_index_knows_is_known_to_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit is in the log and in the index, and its worker has not said so yet."""
    loop, written, goes_on = asyncio.get_running_loop(), threading.Event(), threading.Event()
    engine = EngineSegment(tmp_path / "data")
    await engine.open()
    await engine.create_shard(spec(S, flush="sync"))
    pool = engine.executor
    assert isinstance(pool, IOPool)
    commit, copy = pool._commit, SegmentStorage.copy_index

    def hold(groups: Sequence[Group], *, waits: bool = True) -> Step | None:
        left = commit(groups, waits=waits)
        written.set()
        goes_on.wait()
        return left

    def copy_then_go_on(storage: SegmentStorage, target: Path) -> None:
        written.wait()
        copy(storage, target)
        loop.call_soon_threadsafe(loop.call_later, 0.2, goes_on.set)

    monkeypatch.setattr(pool, "_commit", hold)
    monkeypatch.setattr(SegmentStorage, "copy_index", copy_then_go_on)
    writing = asyncio.create_task(engine.write(S, Record(value=b"x")))
    await engine.copy_index(tmp_path / "copy")
    assert engine.committed_ends() == {S: 1}
    await writing
    await engine.close()
    kv = RocksKV(tmp_path / "copy" / "index")
    state = IndexStore(kv).known_state(S)
    kv.close()
    assert state is not None
    assert state.indexed_end == 1
