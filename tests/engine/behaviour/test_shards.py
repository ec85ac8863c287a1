"""Shards: made, configured, listed, deleted."""

from __future__ import annotations

import asyncio

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.model.errors import Closed, ShardNotFound
from stratamq.model.record import Record
from stratamq.model.shard import ShardOffsets
from stratamq.model.types import ShardName
from tests.engine.support import S, T, batch, read_all, record, spec, values


async def test_a_new_shard_is_empty(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    assert engine.offsets(S) == ShardOffsets(0, 0, 0)
    assert await read_all(engine) == []
    assert engine.epochs(S) == ()
    (segment,) = engine.segments(S)
    assert (segment.base_offset, segment.end_offset, segment.active) == (0, 0, True)


async def test_creating_twice_keeps_what_is_there(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.write(S, record(b"kept"))
    await engine.create_shard(spec())
    assert values(await read_all(engine)) == [b"kept"]


async def test_creating_again_changes_what_can_change(engine: StorageEngine) -> None:
    await engine.create_shard(spec(segment_bytes=1 << 20, index_key=False))
    await engine.write(S, record(b"v" * 2000, b"k"))
    await engine.create_shard(spec(segment_bytes=1024, index_key=True))
    await engine.write(S, record(b"v" * 2000, b"k"))
    assert len(engine.segments(S)) == 2, "the new segment.bytes rules"
    config = engine.list_shards()[S].config
    assert config.number("segment.bytes") == 1024
    assert config.flag("index.key") is False, "an index cannot know what came before it"
    assert len(await engine.read_by_key(S, b"k", history=True)) == 2


async def test_list_names_every_shard(engine: StorageEngine) -> None:
    await engine.create_shard(spec(S, retention_ms=5))
    await engine.create_shard(spec(T, replicated=True))
    shards = engine.list_shards()
    assert set(shards) == {S, T}
    assert shards[S] == spec(S, retention_ms=5)
    assert shards[T].replicated


async def test_shards_do_not_mix(engine: StorageEngine) -> None:
    await engine.create_shard(spec(S))
    await engine.create_shard(spec(T))
    await engine.write(S, record(b"s", b"key", b"tag"))
    await engine.write(T, record(b"t", b"key", b"tag"))
    for shard, value in ((S, b"s"), (T, b"t")):
        assert values(await read_all(engine, shard)) == [value]
        assert values(await engine.read_by_key(shard, b"key", history=True)) == [value]
        assert values(await engine.read_by_tag(shard, b"tag")) == [value]


async def test_a_deleted_shard_is_gone_and_deleting_again_is_fine(engine: StorageEngine) -> None:
    await engine.create_shard(spec(S))
    await engine.create_shard(spec(T))
    await engine.write(T, record(b"stays"))
    await engine.delete_shard(S)
    await engine.delete_shard(S)
    assert set(engine.list_shards()) == {T}
    with pytest.raises(ShardNotFound):
        await engine.write(S, record(b"late"))
    with pytest.raises(ShardNotFound):
        engine.offsets(S)
    assert values(await read_all(engine, T)) == [b"stays"]


async def test_a_shard_of_an_old_name_begins_anew(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.batch_write(S, [record(b"old", b"key", b"tag"), record(b"older")])
    await engine.delete_by_offset(S, 1)
    await engine.delete_shard(S)
    await engine.create_shard(spec())
    assert engine.offsets(S) == ShardOffsets(0, 0, 0)
    await engine.batch_write(S, [record(b"new"), record(b"newer")])
    assert values(await read_all(engine)) == [b"new", b"newer"]
    assert await engine.read_by_key(S, b"key") == []
    assert await engine.read_by_tag(S, b"tag") == []


async def test_deleting_under_writers_answers_each_of_them(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    writes = [asyncio.create_task(engine.write(S, record(b"w"))) for _ in range(50)]
    await asyncio.sleep(0)
    await engine.delete_shard(S)
    for answer in await asyncio.gather(*writes, return_exceptions=True):
        assert isinstance(answer, int | ShardNotFound)


async def test_work_that_comes_after_the_deletion_is_not_done(engine: StorageEngine) -> None:
    """A compaction, say, that was planned before it."""
    assert isinstance(engine, StorageEngine)
    await engine.create_shard(spec())
    shard = engine._shard(S)
    await engine.delete_shard(S)
    done: list[int] = []
    with pytest.raises(ShardNotFound):
        await engine._change(shard, lambda: done.append(1))
    assert done == []


UNKNOWN = ShardName("nobody_0")


@pytest.mark.parametrize(
    "call",
    [
        lambda e: e.write(UNKNOWN, Record(b"v")),
        lambda e: e.batch_write(UNKNOWN, [Record(b"v")]),
        lambda e: e.append_batch(UNKNOWN, batch(b"v")),
        lambda e: e.append_replica(UNKNOWN, batch(b"v")),
        lambda e: e.read_by_offset(UNKNOWN, 0),
        lambda e: e.read_by_key(UNKNOWN, b"k"),
        lambda e: e.read_by_tag(UNKNOWN, b"t"),
        lambda e: e.fetch_batches(UNKNOWN, 0),
        lambda e: e.read_raw(UNKNOWN, 0),
        lambda e: e.offset_by_timestamp(UNKNOWN, 0),
        lambda e: e.delete_by_key(UNKNOWN, b"k"),
        lambda e: e.delete_by_offset(UNKNOWN, 0),
        lambda e: e.truncate(UNKNOWN, 0),
        lambda e: e.advance_high_watermark(UNKNOWN, 0),
        lambda e: e.trim(UNKNOWN, 0),
        lambda e: e.roll(UNKNOWN),
        lambda e: e.apply_retention(UNKNOWN),
        lambda e: e.compact(UNKNOWN),
        lambda e: e.recover_shard(UNKNOWN),
    ],
)
async def test_every_call_knows_an_unknown_shard_and_a_closed_engine(engine, call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ShardNotFound):
        await call(engine)
    await engine.close()
    with pytest.raises(Closed):
        await call(engine)


async def test_closing_twice_is_fine_and_listing_afterwards_is_not(engine: StorageEngine) -> None:
    await engine.close()
    await engine.close()
    with pytest.raises(Closed):
        engine.list_shards()
    with pytest.raises(Closed):
        engine.offsets(S)
    with pytest.raises(Closed):
        await engine.create_shard(spec())


async def test_close_answers_what_was_queued(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    writes = [asyncio.create_task(engine.write(S, record(b"w"))) for _ in range(20)]
    await asyncio.sleep(0)
    await engine.close()
    answers = await asyncio.gather(*writes)
    assert sorted(answers) == list(range(20))
