"""A consumer reaches the end, whatever was deleted or has expired there.

It goes on as Kafka's clients do: after the last batch of an answer, whatever that batch holds."""

from __future__ import annotations

import pytest

from stratamq.engine import reads
from stratamq.engine.engine import StorageEngine
from stratamq.model.clock import ManualClock
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import Compression, check_crc, decode_batch, is_skip, iter_batches
from tests.engine.support import (
    S,
    batch,
    decoded,
    headers,
    offsets,
    produced,
    record,
    spec,
    stored,
    write_all,
    write_mark,
)


async def consumed(
    engine: StorageEngine, *, start: int = 0, bytes_max: int = 1 << 20, end: Offset | None = None
) -> tuple[list[int], int]:
    """Offsets of the records that a client gets, and the offset at which it gets nothing more."""
    seen: list[int] = []
    position = start
    for _ in range(1000):
        if position == (engine.offsets(S).high_watermark if end is None else end):
            return seen, position
        fetched = await engine.fetch_batches(S, Offset(position), bytes_max, end)
        if not fetched.data:
            return seen, position
        for header, data in iter_batches(fetched.data):
            assert check_crc(data, header)
            if not header.is_control:
                seen += [one.offset for one in decode_batch(header, data) if one.offset >= position]
        position = headers(fetched.data)[-1].next_offset
        assert position == fetched.next_offset
    raise AssertionError("it never comes to an end")


async def delete(engine: StorageEngine, *gone: int) -> None:
    for offset in gone:
        assert await engine.delete_by_offset(S, Offset(offset))


CODECS = [Compression.NONE, Compression.GZIP, Compression.ZSTD]


async def three_batches(
    engine: StorageEngine, compression: Compression = Compression.NONE, **config: object
) -> None:
    """Offsets 0..2, 3..5 and 6..8."""
    await engine.create_shard(spec(**config))
    for _ in range(3):
        data = batch(*[record(b"v" * 100, b"k") for _ in range(3)], compression=compression)
        await engine.append_batch(S, data)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "gone",
    [(8,), (6, 7, 8), (5, 6, 7, 8), (3, 4, 5, 6, 7, 8), tuple(range(9)), (4, 8), (0, 1, 2)],
)
async def test_the_end_is_reached(
    engine: StorageEngine, codec: Compression, gone: tuple[int, ...]
) -> None:
    await three_batches(engine, codec)
    await delete(engine, *gone)
    left = [offset for offset in range(9) if offset not in gone]
    for bytes_max in (1, 500, 1 << 20):
        assert await consumed(engine, bytes_max=bytes_max) == (left, 9)
    for start in range(9):
        assert (await consumed(engine, start=start))[1] == 9


async def test_a_consumer_that_waited_there_gets_what_comes_next(engine: StorageEngine) -> None:
    await three_batches(engine)
    await delete(engine, 6, 7, 8)
    assert (await consumed(engine))[1] == 9
    await write_all(engine, [record(b"new")])
    assert await consumed(engine, start=9) == ([9], 10)
    assert await consumed(engine, start=6) == ([9], 10)


async def test_everything_has_expired(engine: StorageEngine, clock: ManualClock) -> None:
    await three_batches(engine, record_ttl_ms=100)
    clock.advance(101)
    assert await consumed(engine) == ([], 9)
    assert await consumed(engine, bytes_max=1) == ([], 9)


async def test_marks_are_made_for_one_answer_and_not_stored(engine: StorageEngine) -> None:
    await three_batches(engine)
    before = await engine.read_raw(S, Offset(0))
    await delete(engine, 6, 7, 8)
    fetched = await engine.fetch_batches(S, Offset(0))
    assert [is_skip(header) for header in headers(fetched.data)] == [False, False, True]
    assert (fetched.skips, fetched.next_offset) == (True, 9)
    assert await engine.read_raw(S, Offset(0)) == before
    assert not (await engine.fetch_batches(S, Offset(0), 1)).skips


async def test_an_answer_does_not_grow_over_its_limit(engine: StorageEngine) -> None:
    """A small batch may be smaller than the mark that stands for it."""
    await engine.create_shard(spec())
    await write_all(engine, [record(b"") for _ in range(3)])
    size = len(await engine.read_raw(S, Offset(0)))
    await delete(engine, 2)
    for bytes_max in range(size // 3, size + 100):
        fetched = await engine.fetch_batches(S, Offset(0), bytes_max)
        assert len(fetched.data) <= bytes_max
        assert headers(fetched.data)[-1].next_offset == fetched.next_offset


async def test_a_long_deleted_stretch_is_passed_in_several_answers(
    engine: StorageEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "HIDDEN_BYTES_MAX", 1000)
    await engine.create_shard(spec())
    await write_all(engine, [record(b"v" * 300, b"k") for _ in range(20)])
    await write_all(engine, [record(b"last")])
    await engine.delete_by_key(S, b"k")
    fetched = await engine.fetch_batches(S, Offset(0), 1)
    assert fetched.skips
    assert 1 < fetched.next_offset < 6
    assert await consumed(engine, bytes_max=1) == ([20], 21)


async def test_what_compaction_removed_at_the_end(engine: StorageEngine) -> None:
    await three_batches(engine)
    await engine.roll(S)
    await delete(engine, *range(3, 9))
    await engine.compact(S)
    assert await stored(engine) == [0, 1, 2]
    assert await consumed(engine) == ([0, 1, 2], 9)
    assert await consumed(engine, start=7) == ([], 9)
    await delete(engine, 0, 1, 2)
    await engine.compact(S)
    assert await stored(engine) == []
    assert await consumed(engine) == ([], 9)


async def test_what_trimming_left_is_deleted(engine: StorageEngine) -> None:
    await three_batches(engine)
    await engine.trim(S, Offset(7))
    await delete(engine, 7, 8)
    assert await consumed(engine, start=7) == ([], 9)


async def test_consumers_stay_below_the_high_watermark(engine: StorageEngine) -> None:
    await engine.create_shard(spec(replicated=True))
    await write_all(engine, [record(b"v", b"k") for _ in range(4)])
    await engine.delete_by_key(S, b"k")
    await engine.advance_high_watermark(S, Offset(2))
    assert await consumed(engine) == ([], 2)
    await engine.advance_high_watermark(S, Offset(4))
    assert await consumed(engine, start=2) == ([], 4)


# -- transactions ----------------------------------------------------------------------------------


async def test_the_last_stable_offset_is_reached_and_not_passed(engine: StorageEngine) -> None:
    """0, 1: committed and deleted; 2: an open transaction, deleted; 3: another one's."""
    await engine.create_shard(spec())
    await write_all(engine, [record(b"a"), record(b"b")])
    await engine.append_batch(S, produced(b"open", transactional=True))
    await engine.append_batch(S, produced(b"open", pid=8, transactional=True))
    await delete(engine, 0, 1, 2)
    stable = engine.last_stable_offset(S)
    assert stable == 2
    assert await consumed(engine, end=stable) == ([], 2)
    assert await consumed(engine) == ([3], 4)
    await write_mark(engine, 7)
    await write_mark(engine, 8, commit=False)
    stable = engine.last_stable_offset(S)
    assert stable == 6
    assert await consumed(engine, start=2, end=stable) == ([3], 6)


async def test_a_gap_below_an_open_transaction(engine: StorageEngine) -> None:
    await write_and_compact_all(engine)
    await engine.append_batch(S, produced(b"open", transactional=True))
    stable = engine.last_stable_offset(S)
    assert stable == 9
    assert await consumed(engine, end=stable) == ([], 9)


async def write_and_compact_all(engine: StorageEngine) -> None:
    await three_batches(engine)
    await engine.roll(S)
    await delete(engine, *range(9))
    await engine.compact(S)


async def test_marks_of_transactions_stay(engine: StorageEngine) -> None:
    """An aborted transaction whose records are deleted too: its mark ends it for the client."""
    await engine.create_shard(spec())
    await engine.append_batch(S, produced(b"a", b"b", transactional=True))
    await write_mark(engine, commit=False)
    await engine.append_batch(S, produced(b"c", sequence=2, transactional=True))
    await write_mark(engine)
    await delete(engine, 0, 1, 3)
    fetched = await engine.fetch_batches(S, Offset(0))
    assert [header.base_offset for header in headers(fetched.data)] == [2, 4]
    assert not any(is_skip(header) for header in headers(fetched.data))
    assert await consumed(engine) == ([], 5)
    (aborted,) = engine.aborted_transactions(S, Offset(0), Offset(5))
    assert (aborted.producer_id, aborted.first_offset) == (7, 0)


async def test_what_a_producer_may_send_next_is_unchanged(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    first = produced(b"a", b"b")
    await engine.append_batch(S, first)
    await delete(engine, 0, 1)
    assert await consumed(engine) == ([], 2)
    assert (await engine.append_batch(S, first)).base_offset == 0, "it came before"
    assert (await engine.append_batch(S, produced(b"c", sequence=2))).base_offset == 2
    assert offsets(decoded(await engine.read_raw(S, Offset(0)))) == [0, 1, 2]
