"""Reading by offset: as records and as batches, within limits, never past the high watermark."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from stratamq.engine.contract import ReadLimit
from stratamq.engine.engine import StorageEngine
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import Compression
from tests.engine.support import (
    S,
    batch,
    decoded,
    fetch_all,
    headers,
    offsets,
    read_all,
    record,
    spec,
    values,
    write_all,
    write_mark,
)
from tests.waiting import every

DIGITS = [b"%d" % number for number in range(10)]


async def test_a_read_begins_at_its_offset(engine: StorageEngine) -> None:
    """In the middle of a batch as well."""
    await engine.create_shard(spec())
    await engine.batch_write(S, [record(value) for value in DIGITS[:4]])
    await engine.append_batch(S, batch(*DIGITS[4:], compression=Compression.LZ4))
    for start in range(11):
        assert values(await engine.read_by_offset(S, Offset(start))) == DIGITS[start:]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9, 10, 11])
@pytest.mark.parametrize("start", [0, 3, 8])
async def test_records_max_is_kept(engine: StorageEngine, count: int, start: int) -> None:
    await engine.create_shard(spec())
    await engine.batch_write(S, [record(value) for value in DIGITS[:6]])
    await write_all(engine, [record(value) for value in DIGITS[6:]])
    found = await engine.read_by_offset(S, Offset(start), ReadLimit(records_max=count))
    assert values(found) == DIGITS[start : start + count]


async def test_no_records_wanted_none_given(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.write(S, record(b"v", b"k", b"t"))
    nothing = ReadLimit(records_max=0)
    assert await engine.read_by_offset(S, Offset(0), nothing) == []
    assert await engine.read_by_key(S, b"k", Offset(0), nothing, history=True) == []
    assert await engine.read_by_key(S, b"k", Offset(0), nothing) == []
    assert await engine.read_by_tag(S, b"t", Offset(0), nothing) == []


async def test_bytes_max_counts_everything_of_a_record(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    heavy = record(b"v" * 40, b"k" * 30, b"t" * 10)._replace(headers=((b"h" * 10, b"x" * 10),))
    await engine.batch_write(S, [heavy] * 5)
    for bytes_max, count in ((99, 1), (199, 1), (200, 2), (300, 3)):
        assert len(await engine.read_by_offset(S, Offset(0), ReadLimit(100, bytes_max))) == count


async def test_an_oversize_first_record_is_returned(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await write_all(engine, [record(b"x" * 200_000, b"k", b"t"), record(b"small", b"k", b"t")])
    tight = ReadLimit(bytes_max=10)
    assert offsets(await engine.read_by_offset(S, Offset(0), tight)) == [0]
    assert offsets(await engine.read_by_tag(S, b"t", Offset(0), tight)) == [0]
    assert offsets(await engine.read_by_key(S, b"k", Offset(0), tight, history=True)) == [1]
    fetched = await engine.fetch_batches(S, Offset(0), 10)
    assert [header.base_offset for header in headers(fetched.data)] == [0]
    assert fetched.next_offset == 1
    assert len(await engine.read_raw(S, Offset(0), 10)) > 200_000


async def test_outside_is_an_error_and_the_end_is_not(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await write_all(engine, [record(value) for value in DIGITS[:5]])
    await engine.trim(S, Offset(2))
    for read in (engine.read_by_offset, engine.fetch_batches, engine.read_raw):
        for offset in (-1, 0, 1, 6):
            with pytest.raises(OffsetOutOfRange) as caught:
                await read(S, Offset(offset))
            assert (caught.value.start, caught.value.end) == (2, 5)
            assert caught.value.offset == offset
    assert await engine.read_by_offset(S, Offset(5)) == []
    assert (await engine.fetch_batches(S, Offset(5)))[:2] == (b"", 5)
    assert await engine.read_raw(S, Offset(5)) == b""


async def test_fetch_gives_whole_batches_as_stored(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    sent = [batch(b"a", b"b", compression=Compression.GZIP), batch(b"c"), batch(b"d", b"e")]
    for data in sent:
        await engine.append_batch(S, data)
    fetched = await engine.fetch_batches(S, Offset(1))
    assert fetched.offsets == (0, 5, 5)
    assert fetched.next_offset == 5
    assert [(h.base_offset, h.last_offset) for h in headers(fetched.data)] == [
        (0, 1),
        (2, 2),
        (3, 4),
    ], "the batch that holds the offset comes whole"
    assert values(decoded(fetched.data)) == [b"a", b"b", b"c", b"d", b"e"]


async def test_fetch_stops_before_bytes_max(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    for value in DIGITS:
        await engine.append_batch(S, batch(value))
    size = len(batch(b"0"))
    fetched = await engine.fetch_batches(S, Offset(0), 3 * size + size // 2)
    assert len(fetched.data) == 3 * size
    assert fetched.next_offset == 3
    assert values(decoded(await fetch_all(engine))) == DIGITS


async def test_reads_cross_segments(engine: StorageEngine) -> None:
    await engine.create_shard(spec(segment_bytes=1024))
    many = [b"%03d" % number + b"." * 97 for number in range(100)]
    await write_all(engine, [record(value) for value in many])
    segments = engine.segments(S)
    assert len(segments) > 10
    assert segments[0].base_offset == 0
    assert all(a.end_offset == b.base_offset for a, b in pairwise(segments))
    assert [segment.active for segment in segments] == [False] * (len(segments) - 1) + [True]
    assert all(segment.size_bytes <= 1024 for segment in segments)
    assert values(await read_all(engine)) == many
    assert values(decoded(await fetch_all(engine))) == many
    assert values(await engine.read_by_offset(S, Offset(50), ReadLimit(3))) == many[50:53]


async def test_a_batch_larger_than_a_segment_gets_its_own(engine: StorageEngine) -> None:
    await engine.create_shard(spec(segment_bytes=1024))
    for size in (10, 5000, 10):
        await engine.write(S, record(b"v" * size))
    assert [segment.base_offset for segment in engine.segments(S)] == [0, 1, 2]
    assert [len(value or b"") for value in values(await read_all(engine))] == [10, 5000, 10]


async def test_control_batches_are_no_records(engine: StorageEngine) -> None:
    """They take an offset, consumers of batches get them, readers of records do not."""
    await engine.create_shard(spec())
    await engine.write(S, record(b"a"))
    assert await write_mark(engine) == 1
    await engine.write(S, record(b"b"))
    await write_mark(engine)
    assert offsets(await read_all(engine)) == [0, 2]
    assert await engine.read_by_offset(S, Offset(3)) == []
    data = (await engine.fetch_batches(S, Offset(0))).data
    assert [header.is_control for header in headers(data)] == [False, True, False, True]
    mark = decoded(data)[1]
    assert mark.key is not None
    assert await engine.read_by_key(S, mark.key) == []
    assert await engine.delete_by_key(S, mark.key) == 0
    assert await engine.delete_by_offset(S, Offset(1)) is False


async def test_readers_beside_writers_see_a_growing_prefix(engine: StorageEngine) -> None:
    await engine.create_shard(spec(segment_bytes=2048))
    total = 150

    async def produce() -> None:
        for number in range(total):
            await engine.write(S, record(b"%d" % number))

    async def consume() -> list[bytes | None]:
        got: list[bytes | None] = []
        while len(got) < total:
            got += values(await engine.read_by_offset(S, Offset(len(got))))
            await asyncio.sleep(0)
        return got

    _, *answers = await asyncio.gather(produce(), consume(), consume())
    for got in every(answers):
        assert got == [b"%d" % number for number in range(total)]
