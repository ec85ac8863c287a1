"""Files with unsynced writes, over a disk that fails: how they are closed when there are many."""

from __future__ import annotations

import errno
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.errors import ShardPoisoned
from stratamq.model.types import ShardName
from tests.engine.support import S, T, read_all, record, spec, values
from tests.twins.disk import Call, SimDisk
from tests.twins.kv import SimKV

HOME = Path("/data")
LIMITS = EngineLimits(workers=1, reader_threads=1, open_files_max=2)
"""One file with unsynced writes, and one for readers."""


@asynccontextmanager
async def engine_over(disk: SimDisk) -> AsyncIterator[EngineSegment]:
    disk.make_folder(HOME)
    engine = EngineSegment(HOME, limits=LIMITS, disk=disk, open_kv=lambda *_, **__: SimKV())
    await engine.open()
    try:
        yield engine
    finally:
        disk.trouble = lambda call: None
        await engine.close()


def is_sync_of(call: Call, shard: ShardName) -> bool:
    return call.kind == "sync" and call.path.parent.name == shard and call.path.suffix == ".log"


async def test_no_file_is_closed_unsynced_and_the_event_loop_waits_for_none() -> None:
    disk, syncing = SimDisk(), []

    def watch(call: Call) -> None:
        if is_sync_of(call, S) or is_sync_of(call, T):
            syncing.append((call.path.parent.name, threading.current_thread()))

    async with engine_over(disk) as engine:
        for shard in (S, T):
            await engine.create_shard(spec(shard, flush="os"))
            await engine.write(shard, record(b"first"))
        disk.trouble = watch
        for shard in (S, T, S):
            await engine.write(shard, record(b"next"))
        assert [name for name, _ in syncing] == [T, S, T]
        assert threading.main_thread() not in [thread for _, thread in syncing]


async def test_a_sync_that_fails_concerns_its_own_shard() -> None:
    disk = SimDisk()
    async with engine_over(disk) as engine:
        for shard in (S, T):
            await engine.create_shard(spec(shard, flush="os"))
        await engine.write(S, record(b"lost perhaps"))
        disk.trouble = lambda call: OSError(errno.EIO, "broken") if is_sync_of(call, S) else None
        await engine.write(T, record(b"stored"))
        with pytest.raises(ShardPoisoned):
            await engine.write(S, record(b"refused"))
        disk.trouble = lambda call: None
        assert values(await read_all(engine, T)) == [b"stored"]
        await engine.recover_shard(S)
        await engine.write(S, record(b"again"))
        assert values(await read_all(engine, S)) == [b"lost perhaps", b"again"]


async def test_a_write_without_a_descriptor_gets_that_of_a_file_that_waits_for_its_sync() -> None:
    disk, closed = SimDisk(), []

    def watch(call: Call) -> None:
        if is_sync_of(call, S):
            closed.append(call)

    async with engine_over(disk) as engine:
        await engine.create_shard(spec(S, flush="os"))
        await engine.create_shard(spec(T, flush="sync"))
        await engine.write(T, record(b"first"))
        await engine.write(S, record(b"unsynced"))
        disk.trouble = watch
        disk.open_trouble = lambda path: None if closed else OSError(errno.EMFILE, "none left")
        await engine.write(T, record(b"next"))
        assert closed
        assert values(await read_all(engine, T)) == [b"first", b"next"]
