"""Whoever waits for new records is called when there are some, and when waiting is in vain."""

from __future__ import annotations

from stratamq.engine.engine import StorageEngine
from stratamq.model.types import Offset
from tests.engine.support import S, T, batch, record, spec


async def test_an_append_calls_back_and_shows_its_records(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    seen: list[int] = []
    engine.subscribe(S, lambda: seen.append(engine.offsets(S).high_watermark))
    await engine.append_batch(S, batch(b"a", b"b"))
    await engine.write(S, record(b"c"))
    assert seen == [2, 3]


async def test_only_the_own_shard_calls_back(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.create_shard(spec(T))
    calls: list[str] = []
    engine.subscribe(S, lambda: calls.append("S"))
    await engine.write(T, record(b"a"))
    assert calls == []


async def test_after_unsubscribing_nothing_calls_back(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    calls: list[int] = []

    def call() -> None:
        calls.append(1)

    first, second = engine.subscribe(S, call), engine.subscribe(S, call)
    await engine.write(S, record(b"a"))
    first()
    first()
    await engine.write(S, record(b"b"))
    second()
    await engine.write(S, record(b"c"))
    assert len(calls) == 3


async def test_a_callback_may_unsubscribe_itself(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    calls: list[int] = []

    def once() -> None:
        calls.append(1)
        end()

    end = engine.subscribe(S, once)
    engine.subscribe(S, lambda: calls.append(2))
    await engine.write(S, record(b"a"))
    await engine.write(S, record(b"b"))
    assert calls == [1, 2, 2]


async def test_a_replica_calls_back_when_its_watermark_moves(engine: StorageEngine) -> None:
    await engine.create_shard(spec(replicated=True))
    calls: list[int] = []
    engine.subscribe(S, lambda: calls.append(engine.offsets(S).high_watermark))
    await engine.append_batch(S, batch(b"a", b"b"))
    assert calls == []
    await engine.advance_high_watermark(S, Offset(2))
    await engine.truncate(S, Offset(0))
    assert calls == [2, 0]


async def test_trimming_and_deletion_call_back(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.write(S, record(b"a"))
    calls: list[int] = []
    engine.subscribe(S, lambda: calls.append(1))
    await engine.trim(S, Offset(1))
    assert len(calls) == 1
    await engine.delete_shard(S)
    assert len(calls) == 2


async def test_a_view_into_a_larger_buffer_is_stored_as_it_is(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    data = batch(b"a", b"b")
    view = memoryview(b"before" + data + b"after")[6 : 6 + len(data)]
    await engine.append_batch(S, view)
    fetched = await engine.fetch_batches(S, Offset(0))
    assert fetched.data[61:] == data[61:]
