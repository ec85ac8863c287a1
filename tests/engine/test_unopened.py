"""Shards that a start leaves closed: opened when they are used, and by a pass in the background."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.engine import unopened
from stratamq.engine.layout import HIGH_WATERMARKS
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.segment.engine import EngineSegment
from stratamq.engine.segment.high_watermarks import HighWatermarks
from stratamq.engine.storage import StoredShard
from stratamq.log import names
from stratamq.log.disk import RealDisk
from stratamq.model.errors import (
    CorruptRecord,
    KVDamaged,
    ShardNotFound,
    ShardPoisoned,
    ShardUnavailable,
)
from stratamq.model.types import Offset, ShardName
from tests.engine.support import batch, produced, read_all, record, spec, values
from tests.waiting import until

NONE_FIRST = EngineLimits(workers=1, reader_threads=2, shards_opened_first_max=0)
TOPIC = "0123456789abcdef0123456789abcdef"
A, B, C = (ShardName(f"{TOPIC}_{partition}") for partition in range(3))
SPECS = [spec(name, flush="sync", segment_bytes=1024) for name in (A, B, C)]
FIRST = names.segment_file(Offset(0), names.LOG)


class Data:
    """A data folder with three shards of ten records each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shards = folder / "segments"

    @asynccontextmanager
    async def engine(self, limits: EngineLimits = NONE_FIRST) -> AsyncIterator[EngineSegment]:
        engine = EngineSegment(self.folder, limits=limits)
        await engine.open()
        try:
            yield engine
        finally:
            await engine.close()

    def waiting(self, engine: EngineSegment) -> set[ShardName]:
        return {name for name in (A, B, C) if engine.is_unopened(name)}


TEN = [b"%d" % number for number in range(10)]


@pytest.fixture
async def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Data:
    """The pass does not begin by itself, unless a test shortens its delay."""
    monkeypatch.setattr(unopened, "PASS_DELAY_S", 600.0)
    data = Data(tmp_path)
    async with data.engine() as engine:
        for one in SPECS:
            await engine.create_shard(one)
            for value in TEN:
                await engine.write(one.name, record(value, b"key"))
    return data


async def test_a_shard_is_opened_when_it_is_used_and_the_others_are_not(data: Data) -> None:
    async with data.engine() as engine:
        assert data.waiting(engine) == {A, B, C}
        assert values(await read_all(engine, A)) == TEN
        assert await engine.write(A, record(b"more")) == 10
        assert data.waiting(engine) == {B, C}
        await engine.open_shard(B)
        assert data.waiting(engine) == {C}
        assert engine.offsets(B).end == 10
    async with data.engine() as engine:
        assert values(await read_all(engine, A)) == [*TEN, b"more"]


async def test_few_shards_are_all_opened_first(data: Data) -> None:
    async with data.engine(EngineLimits(shards_opened_first_max=3)) as engine:
        assert data.waiting(engine) == set()


async def test_the_pass_opens_what_nobody_uses(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unopened, "PASS_DELAY_S", 0.0)
    (data.shards / B / "shard.json").write_bytes(b"garbage")
    async with data.engine() as engine:
        await until(lambda: not data.waiting(engine))
        assert list(engine.unavailable_shards()) == [B], "damage is found without a reader"
        assert "shard.json" in engine.unavailable_shards()[B]
        assert set(engine.list_shards()) == {A, C}


async def test_a_shard_with_bytes_that_were_not_synced_is_opened_first(data: Data) -> None:
    torn = data.shards / B / "00000000000000000000.log"
    newest = max(torn.parent.glob("*.log"))
    with newest.open("ab") as file:
        file.write(b"torn")
    async with data.engine() as engine:
        assert data.waiting(engine) == {A, C}
        assert values(await read_all(engine, B)) == TEN
        assert len(list(torn.parent.glob("*torn*"))) == 1, "its tail was cut before"


async def test_callers_that_come_together_open_a_shard_once(data: Data) -> None:
    async with data.engine() as engine:
        opened = engine._registry._unopened._open_later
        calls: list[ShardName] = []

        def counted(name: ShardName) -> StoredShard | None:
            calls.append(name)
            return opened(name)

        engine._registry._unopened._open_later = counted
        waiting = [asyncio.create_task(engine.open_shard(A)) for _ in range(5)]
        await asyncio.sleep(0)  # they have begun
        assert engine.offsets(A).end == 10, "a caller that cannot wait has it at once"
        await asyncio.gather(*waiting)
        assert calls == [A]


async def test_a_caller_that_gives_up_leaves_the_shard_to_the_next(data: Data) -> None:
    async with data.engine() as engine:
        waiting = asyncio.create_task(engine.open_shard(A))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert values(await read_all(engine, A)) == TEN


# -- what was lost or damaged meanwhile ----------------------------------------------------------


async def test_a_lost_folder_is_refused_by_name_and_never_made_empty(data: Data) -> None:
    shutil.rmtree(data.shards / A)
    async with data.engine() as engine:
        await engine.restore_shards(SPECS)
        assert A in engine.unavailable_shards()
        with pytest.raises(ShardUnavailable, match=A):
            await engine.write(A, record(b"again"))
        assert not (data.shards / A).exists()


async def test_a_lost_segment_is_found_when_its_shard_is_opened(data: Data) -> None:
    (data.shards / A / FIRST).unlink()
    async with data.engine() as engine:
        await engine.restore_shards(SPECS)
        await engine.open_shard(A)
        with pytest.raises(CorruptRecord):
            await engine.read_by_offset(A, Offset(0))
        assert await engine.write(A, record(b"more")) == 10, "no offset is given out twice"


async def test_a_folder_that_goes_after_the_start_is_refused_as_well(data: Data) -> None:
    async with data.engine() as engine:
        await engine.restore_shards(SPECS)
        shutil.rmtree(data.shards / A)
        with pytest.raises(ShardUnavailable, match=A):
            await engine.write(A, record(b"again"))
        assert A in engine.unavailable_shards()
        assert not (data.shards / A).exists()


async def test_an_operator_need_not_wait_for_the_pass(data: Data) -> None:
    (data.shards / A / "shard.json").unlink()
    async with data.engine() as engine:
        await engine.restore_shards(SPECS)
        assert await engine.retry_shard(SPECS[0], repair=True)
        assert values(await read_all(engine, A)) == TEN


async def test_a_creation_that_was_cut_off_is_no_shard(data: Data) -> None:
    unfinished = ShardName(f"{TOPIC}_7")
    (data.shards / unfinished).mkdir()
    (data.shards / unfinished / FIRST).touch()
    async with data.engine() as engine:
        with pytest.raises(ShardNotFound):
            engine.offsets(unfinished)
        assert not (data.shards / unfinished).exists()


async def test_a_damaged_index_is_rebuilt_for_shards_that_are_opened_later(data: Data) -> None:
    async with data.engine() as engine:
        registry = engine._registry
        opened = registry._unopened._open_later
        failures = [KVDamaged("damaged: Corruption")]

        def failing(name: ShardName) -> StoredShard | None:
            if failures:
                raise failures.pop()
            return opened(name)

        registry._unopened._open_later = failing
        with pytest.raises(KVDamaged):
            await engine.open_shard(A)
        assert data.waiting(engine) == {A, B, C}
        await engine.open_shard(A)  # which waits for the new index
        assert values(await engine.read_by_key(A, b"key", history=True)) == TEN[::-1]
        assert (data.folder / "index-damaged").exists()
        assert values(await read_all(engine, B)) == TEN


# -- changes of shards that are not open ---------------------------------------------------------


async def test_an_unopened_shard_can_be_deleted(data: Data) -> None:
    async with data.engine() as engine:
        await engine.delete_shard(A)
        assert not (data.shards / A).exists()
        with pytest.raises(ShardNotFound):
            engine.offsets(A)
    async with data.engine() as engine:
        assert data.waiting(engine) == {B, C}


async def test_creating_it_again_keeps_its_records(data: Data) -> None:
    changed = spec(A, flush="sync", segment_bytes=1024, retention_ms=5)
    async with data.engine() as engine:
        await engine.create_shard(changed)
        assert values(await read_all(engine, A)) == TEN
        assert engine.list_shards()[A] == changed


async def test_the_metadata_configs_are_in_force_when_it_is_opened(data: Data) -> None:
    changed = [spec(one.name, flush="sync", retention_ms=7) for one in SPECS]
    async with data.engine() as engine:
        await engine.restore_shards(changed)
        assert data.waiting(engine) == {A, B, C}
        assert engine.list_shards() == {one.name: one for one in changed}
        await engine.open_shard(A)
        assert engine.list_shards()[A].config.number("retention.ms") == 7
    async with data.engine(EngineLimits()) as engine:
        assert engine.list_shards()[A].config.number("retention.ms") == 7, "they are stored"


async def test_a_producer_is_known_after_its_shard_was_opened_late(data: Data) -> None:
    async with data.engine() as engine:
        first = await engine.append_batch(A, produced(b"x", sequence=0))
    async with data.engine() as engine:
        assert data.waiting(engine) == {A, B, C}
        again = await engine.append_batch(A, produced(b"x", sequence=0))
        assert again.base_offset == first.base_offset


async def test_a_replica_takes_no_writes_before_its_lower_watermark_is_saved(data: Data) -> None:
    name = ShardName(f"{TOPIC}_9")
    async with data.engine() as engine:
        await engine.create_shard(replace(SPECS[0], name=name, replicated=True))
        for base in range(3):
            await engine.append_replica(name, batch(b"x", base=base, epoch=0))
    note_watermark(data, name, 99)  # as if the end of its log were lost since
    async with data.engine() as engine:
        storage, go_on = engine._registry._storage, threading.Event()
        save = storage.save_high_watermarks

        def held(marks: Mapping[ShardName, Offset]) -> None:
            assert go_on.wait(10)
            save(marks)

        storage.save_high_watermarks = held  # type: ignore[method-assign]
        assert engine.offsets(name).end == 3
        with pytest.raises(ShardPoisoned):
            await engine.append_replica(name, batch(b"x", base=3, epoch=0))
        go_on.set()
        await engine.open_shard(name)
        assert await engine.append_replica(name, batch(b"x", base=3, epoch=0)) == 4
    assert watermarks(data).load()[name] == 3


def watermarks(data: Data) -> HighWatermarks:
    return HighWatermarks(RealDisk(), data.shards / HIGH_WATERMARKS)


def note_watermark(data: Data, name: ShardName, mark: int) -> None:
    marks = watermarks(data)
    marks.load()
    marks.save({name: Offset(mark)}, lambda _: True)


async def test_closing_ends_the_pass(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unopened, "PASS_DELAY_S", 0.0)
    for _ in range(3):
        async with data.engine():
            await asyncio.sleep(0)
    async with data.engine() as engine:
        assert values(await read_all(engine, C)) == TEN
        assert not engine.unavailable_shards()
        with pytest.raises(ShardNotFound):
            engine.offsets(ShardName(f"{TOPIC}_8"))


async def test_shards_that_memory_persists_are_all_opened_first(tmp_path: Path) -> None:
    persisted = spec(A, memory_persist=True)
    for values_before in ([], [b"kept"]):
        engine = EngineMemory(tmp_path, limits=NONE_FIRST)
        await engine.open()
        assert not engine.is_unopened(A)
        await engine.create_shard(persisted)
        assert values(await read_all(engine, A)) == values_before
        await engine.write(A, record(b"kept"))
        await engine.close()
