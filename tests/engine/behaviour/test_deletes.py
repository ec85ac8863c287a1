"""Deleting by key and by offset: no read path returns what was deleted."""

from __future__ import annotations

import pytest

from stratamq.engine.contract import ReadLimit
from stratamq.engine.engine import StorageEngine
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import Compression
from tests.engine.support import (
    NOW,
    S,
    batch,
    decoded,
    fetch_all,
    headers,
    offsets,
    read_all,
    record,
    spec,
    write_all,
)


async def seen(engine: StorageEngine) -> list[list[int]]:
    """The offsets that each read path shows, by all means there are."""
    by_key: list[int] = []
    for key in (b"a", b"b"):
        by_key += offsets(await engine.read_by_key(S, key, history=True))
    return [
        offsets(await read_all(engine)),
        sorted(by_key),
        offsets(await engine.read_by_tag(S, b"t")),
        offsets(decoded(await fetch_all(engine))),
    ]


async def filled(engine: StorageEngine, **config: object) -> None:
    await engine.create_shard(spec(**config))
    keys = [b"a", b"b", b"a", b"b", b"a", b"b"]
    await engine.append_batch(
        S, batch(*(record(b"v", key, b"t") for key in keys[:4]), compression=Compression.GZIP)
    )
    await write_all(engine, [record(b"v", key, b"t") for key in keys[4:]])


async def test_delete_by_offset(engine: StorageEngine) -> None:
    await filled(engine)
    assert await engine.delete_by_offset(S, Offset(1)) is True
    assert await engine.delete_by_offset(S, Offset(4)) is True
    assert await seen(engine) == [[0, 2, 3, 5]] * 4
    assert await engine.read_by_offset(S, Offset(4)) != []
    assert offsets(await engine.read_by_offset(S, Offset(4), ReadLimit(1))) == [5]


async def test_only_what_is_there_can_be_deleted(engine: StorageEngine) -> None:
    await filled(engine)
    await engine.trim(S, Offset(1))
    for offset in (-1, 0, 6, 100):
        assert await engine.delete_by_offset(S, Offset(offset)) is False
    assert await engine.delete_by_offset(S, Offset(2)) is True
    assert await engine.delete_by_offset(S, Offset(2)) is False


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "scanned"])
async def test_delete_by_key(engine: StorageEngine, indexed: bool) -> None:
    await filled(engine, index_key=indexed)
    await engine.delete_by_offset(S, Offset(2))
    assert await engine.delete_by_key(S, b"a") == 2
    assert await engine.delete_by_key(S, b"a") == 0
    assert await engine.delete_by_key(S, b"nobody") == 0
    assert await seen(engine) == [[1, 3, 5]] * 4
    assert await engine.read_by_key(S, b"a") == []


async def test_a_deleted_key_can_be_written_again(engine: StorageEngine) -> None:
    await filled(engine)
    await engine.delete_by_key(S, b"a")
    assert await engine.write(S, record(b"new", b"a", b"t")) == 6
    assert offsets(await engine.read_by_key(S, b"a", history=True)) == [6]


async def test_the_newest_of_a_key_may_be_deleted(engine: StorageEngine) -> None:
    await filled(engine)
    await engine.delete_by_offset(S, Offset(4))
    assert offsets(await engine.read_by_key(S, b"a")) == [2]


async def test_batches_with_deleted_records_are_rewritten_for_consumers(
    engine: StorageEngine,
) -> None:
    await filled(engine)
    before = headers(await fetch_all(engine))[0]
    await engine.delete_by_offset(S, Offset(0))
    await engine.delete_by_offset(S, Offset(3))
    first, *others = headers(await fetch_all(engine))
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 3, 2)
    assert first.compression is before.compression
    assert len(others) == 2


async def test_consumers_get_over_a_batch_that_is_gone(engine: StorageEngine) -> None:
    await filled(engine)
    for offset in range(6):
        await engine.delete_by_offset(S, Offset(offset))
    assert await seen(engine) == [[]] * 4
    fetched = await engine.fetch_batches(S, Offset(0))
    assert (decoded(fetched.data), fetched.next_offset) == ([], 6)


async def test_replicas_get_deleted_records(engine: StorageEngine) -> None:
    """Otherwise they would not be equal."""
    await filled(engine)
    before = await engine.read_raw(S, Offset(0))
    await engine.delete_by_key(S, b"a")
    assert await engine.read_raw(S, Offset(0)) == before


async def test_what_is_not_committed_can_be_deleted(engine: StorageEngine) -> None:
    """It must not come into sight when it is."""
    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"v", b"k") for _ in range(3)])
    await engine.advance_high_watermark(S, Offset(1))
    assert await engine.delete_by_key(S, b"k") == 3
    await engine.advance_high_watermark(S, Offset(3))
    assert await read_all(engine) == []


async def test_deletion_survives_a_roll_and_time(engine: StorageEngine) -> None:
    await filled(engine)
    await engine.delete_by_offset(S, Offset(1))
    await engine.roll(S)
    await engine.delete_by_offset(S, Offset(3))
    assert await seen(engine) == [[0, 2, 4, 5]] * 4
    assert await engine.offset_by_timestamp(S, TimestampMs(NOW)) == 0
