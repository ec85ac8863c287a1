"""Writing: whose offsets, what is kept, what is refused."""

from __future__ import annotations

import asyncio
import random
import struct

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.model.clock import ManualClock
from stratamq.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    NotLeader,
    StrataError,
    UnsupportedFormat,
)
from stratamq.model.record import Record
from stratamq.model.types import LeaderEpoch, TimestampMs
from stratamq.wire.kafka.records import Compression, read_header
from tests.engine.support import (
    NOW,
    S,
    T,
    batch,
    decoded,
    fetch_all,
    headers,
    offsets,
    read_all,
    record,
    spec,
    values,
)
from tests.waiting import let_run


async def test_offsets_are_consecutive_over_all_ways_to_write(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    assert await engine.write(S, record(b"0")) == 0
    assert await engine.batch_write(S, [record(b"1"), record(b"2")]) == range(1, 3)
    assert (await engine.append_batch(S, batch(b"3", b"4")))[:2] == (3, 4)
    assert await engine.write(S, record(b"5")) == 5
    assert engine.offsets(S) == (0, 6, 6)
    records = await read_all(engine)
    assert values(records) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert offsets(records) == [0, 1, 2, 3, 4, 5]


async def test_an_empty_batch_write_writes_nothing(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.write(S, record(b"0"))
    assert await engine.batch_write(S, []) == range(1, 1)
    assert engine.offsets(S).end == 1


async def test_concurrent_writers_get_their_own_offsets(engine: StorageEngine) -> None:
    """One merged answer to all who wait would give producers each other's offsets."""
    for shard in (S, T):
        await engine.create_shard(spec(shard))

    async def produce(producer: int) -> list[tuple[int, bytes]]:
        chance = random.Random(producer)
        got = []
        for number in range(10):
            shard = chance.choice((S, T))
            mine = [b"%d/%d/%d" % (producer, number, i) for i in range(chance.randint(1, 5))]
            given = await engine.batch_write(shard, [record(value) for value in mine])
            got += [((shard, offset), value) for offset, value in zip(given, mine, strict=True)]
        return got

    answers = await asyncio.gather(*(produce(number) for number in range(20)))
    claimed = [claim for answer in answers for claim in answer]
    stored = {
        (shard, found.offset): found.value
        for shard in (S, T)
        for found in await read_all(engine, shard)
    }
    assert len(claimed) == len(stored)
    assert dict(claimed) == stored
    for shard in (S, T):
        taken = sorted(offset for (where, offset), _ in claimed if where == shard)
        assert taken == list(range(engine.offsets(shard).end))


async def test_one_producers_batches_stay_in_order(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    writes = [engine.append_batch(S, batch(b"%d" % number)) for number in range(100)]
    results = await asyncio.gather(*(asyncio.create_task(write) for write in writes))
    assert [result.base_offset for result in results] == list(range(100))
    assert values(await read_all(engine)) == [b"%d" % number for number in range(100)]


AWKWARD = [
    Record(value=None, key=None),
    Record(value=b"", key=b""),
    Record(value=b"\x00\xff", key=b"\xfe\x00"),
    Record(value=b"v", headers=((b"\xff\xfe", b"\x80"), (b"", b""), (b"n", None), (b"n", b"2"))),
    Record(value=b"v", tags=(b"", b"a", b"a", b"\xff")),
    Record(value=b"v", timestamp=TimestampMs(0)),
    Record(value=b"v", timestamp=TimestampMs(NOW + 86_400_000)),
    Record(value=b"v" * 70_000, key=b"k" * 300),
]


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
async def test_records_come_back_exactly(engine: StorageEngine, codec: str) -> None:
    await engine.create_shard(spec(compression_type=codec))
    await engine.batch_write(S, AWKWARD)
    expected = [
        item._replace(offset=number, timestamp=NOW if item.timestamp < 0 else item.timestamp)
        for number, item in enumerate(AWKWARD)
    ]
    assert await read_all(engine) == expected
    assert decoded(await fetch_all(engine)) == expected
    assert (headers(await fetch_all(engine))[0].compression.name == "NONE") == (
        codec == "uncompressed"
    )


@pytest.mark.parametrize("codec", list(Compression))
async def test_a_producers_batch_is_kept_byte_for_byte(
    engine: StorageEngine, codec: Compression
) -> None:
    """All but offset and epoch, which the CRC leaves out for this reason."""
    await engine.create_shard(spec(compression_type="zstd"))
    await engine.write(S, record(b"first"))
    sent = batch(record(b"v" * 500, b"k", b"t"), compression=codec)
    result = await engine.append_batch(S, sent, LeaderEpoch(3))
    stored = (await engine.fetch_batches(S, result.base_offset)).data
    assert stored[16:] == sent[16:]
    header = read_header(stored)
    assert (header.base_offset, header.leader_epoch) == (1, 3)
    assert result == (1, 1, -1, 0)


async def test_log_append_time_is_the_nodes(engine: StorageEngine, clock: ManualClock) -> None:
    await engine.create_shard(spec(message_timestamp_type="LogAppendTime"))
    clock.advance(1000)
    result = await engine.append_batch(S, batch(record(b"a", at=5), record(b"b", at=6)))
    assert result.append_time == NOW + 1000
    assert [found.timestamp for found in await read_all(engine)] == [NOW + 1000] * 2
    (header,) = headers(await fetch_all(engine))
    assert header.uses_log_append_time
    assert header.max_timestamp == NOW + 1000


async def test_a_wrong_largest_timestamp_is_set_right(engine: StorageEngine) -> None:
    """The time index rests on it; a producer must not be able to hide its records from it."""
    await engine.create_shard(spec())
    honest = batch(record(b"a", at=5), record(b"b", at=9))
    lying = bytearray(honest)
    struct.pack_into(">q", lying, 35, 1)
    await engine.append_batch(S, with_crc(bytes(lying)))
    (header,) = headers(await fetch_all(engine))
    assert header.max_timestamp == 9
    assert await engine.offset_by_timestamp(S, TimestampMs(9)) == 1


def with_crc(data: bytes) -> bytes:
    """The same batch with the CRC that its bytes need."""
    from crc32c import crc32c

    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes((data[position] ^ 1,)) + data[position + 1 :]


GOOD = batch(record(b"value", b"key", b"tag"), record(b"more"))
BAD = {
    "empty": (b"", CorruptBatch),
    "a header too short": (GOOD[:30], CorruptBatch),
    "cut off": (GOOD[:-1], CorruptBatch),
    "something behind it": (GOOD + b"x", CorruptBatch),
    "two batches": (GOOD + GOOD, CorruptBatch),
    "a flipped bit": (flipped(GOOD, 70), CorruptBatch),
    "an old format": (GOOD[:16] + b"\x01" + GOOD[17:], UnsupportedFormat),
    "a future format": (GOOD[:16] + b"\x03" + GOOD[17:], UnsupportedFormat),
    "unknown compression": (with_crc(GOOD[:22] + b"\x07" + GOOD[23:]), UnsupportedFormat),
    "an absurd count": (with_crc(GOOD[:57] + b"\x7f\xff\xff\xff" + GOOD[61:]), CorruptBatch),
    "a count too small": (with_crc(GOOD[:57] + b"\0\0\0\1" + GOOD[61:]), CorruptBatch),
    "a record that lies about its length": (
        with_crc(GOOD[:61] + b"\x7e" + GOOD[62:]),
        CorruptBatch,
    ),
    "gzip that is none": (with_crc(GOOD[:22] + b"\x01" + GOOD[23:]), CorruptBatch),
}


@pytest.mark.parametrize("what", list(BAD))
async def test_bad_batches_are_named_and_not_stored(engine: StorageEngine, what: str) -> None:
    await engine.create_shard(spec(index_key=False, index_tag=False))
    data, error = BAD[what]
    with pytest.raises(error):
        await engine.append_batch(S, data)
    assert engine.offsets(S) == (0, 0, 0)
    assert await read_all(engine) == []
    await engine.append_batch(S, GOOD)
    assert values(await read_all(engine)) == [b"value", b"more"]


async def test_an_oversize_batch_is_refused(engine: StorageEngine) -> None:
    await engine.create_shard(spec(max_message_bytes=1000))
    with pytest.raises(BatchTooLarge):
        await engine.append_batch(S, batch(b"v" * 1000))
    with pytest.raises(BatchTooLarge):
        await engine.batch_write(S, [record(b"v" * 300)] * 4)
    await engine.write(S, record(b"v" * 500))
    assert engine.offsets(S).end == 1


async def test_a_decompression_bomb_is_refused(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    bomb = batch(b"\0" * (8 << 20), compression=Compression.ZSTD)
    assert len(bomb) < 10_000
    with pytest.raises(BatchTooLarge):
        await engine.append_batch(S, bomb)
    assert engine.offsets(S).end == 0


async def test_a_compacted_topic_wants_keys(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact"))
    for write in (
        engine.write(S, record(b"v")),
        engine.batch_write(S, [record(b"v", b"k"), record(b"v")]),
        engine.append_batch(S, batch(record(b"v"))),
    ):
        with pytest.raises(InvalidRecord):
            await write
    await engine.write(S, record(b"v", b""))
    assert engine.offsets(S).end == 1, "an empty key is a key"


async def test_a_deposed_leader_is_refused(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_batch(S, batch(b"a"), LeaderEpoch(2))
    with pytest.raises(NotLeader):
        await engine.append_batch(S, batch(b"b"), LeaderEpoch(1))
    await engine.append_batch(S, batch(b"c"))
    assert [header.leader_epoch for header in headers(await fetch_all(engine))] == [2, 2]
    assert values(await read_all(engine)) == [b"a", b"c"]


async def test_a_refused_request_spares_its_neighbours(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    await engine.append_batch(S, batch(b"a"), LeaderEpoch(2))
    mixed = [
        engine.append_batch(S, batch(b"%d" % number), LeaderEpoch(number % 2 + 1))
        for number in range(10)
    ]
    answers = await asyncio.gather(*mixed, return_exceptions=True)
    stored = [answer for answer in answers if not isinstance(answer, StrataError)]
    assert [answer.base_offset for answer in stored] == [1, 2, 3, 4, 5]  # type: ignore[union-attr]
    assert values(await read_all(engine))[1:] == [b"1", b"3", b"5", b"7", b"9"]


async def test_a_cancelled_writer_leaves_a_sound_log(engine: StorageEngine) -> None:
    await engine.create_shard(spec())
    writes = [asyncio.create_task(engine.write(S, record(b"%d" % n))) for n in range(20)]
    await asyncio.sleep(0)
    for write in writes[::2]:
        write.cancel()
    answers = await asyncio.gather(*writes, return_exceptions=True)
    await engine.write(S, record(b"last"))
    stored = {found.offset: found.value for found in await read_all(engine)}
    assert sorted(stored) == list(range(len(stored)))
    for number, answer in enumerate(answers):
        if isinstance(answer, int):
            assert stored[answer] == b"%d" % number


@pytest.mark.parametrize("flush", ["sync", "interval", "os"])
async def test_every_flush_mode_writes(engine: StorageEngine, flush: str) -> None:
    await engine.create_shard(spec(flush=flush, flush_ms=1))
    for number in range(3):
        assert await engine.write(S, record(b"%d" % number)) == number
    await let_run(0.02)
    assert values(await read_all(engine)) == [b"0", b"1", b"2"]
