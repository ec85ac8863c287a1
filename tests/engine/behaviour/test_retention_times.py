"""How old a segment is: by the timestamps of its records, whatever headers say about them; where
they have none, by the time of the last write."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.segment.engine import EngineSegment
from stratamq.log.names import LOG, segment_file
from stratamq.model.clock import ManualClock
from stratamq.model.errors import InvalidTimestamp
from stratamq.model.record import Record
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import Compression, check_crc, decode_batch, iter_batches
from tests.engine.conftest import LIMITS, House
from tests.engine.lying import lying_batch
from tests.engine.support import S, headers, read_all, spec

HOUR_MS = 3_600_000
FAR = 1 << 50
"""Thousands of years from now."""

CODECS = [Compression.NONE, Compression.LZ4]


@pytest.fixture
def clock() -> ManualClock:
    """Files have the machine's time, so that is where this one begins."""
    return ManualClock(time.time_ns() // 1_000_000)


def aged(*stamps: int) -> list[Record]:
    return [Record(value=b"v", key=b"k", timestamp=TimestampMs(stamp)) for stamp in stamps]


def set_time(folder: Path, name: str, modified_ms: int) -> None:
    (path,) = folder.rglob(name)
    os.utime(path, ns=(modified_ms * 1_000_000,) * 2)


def starts(engine: StorageEngine) -> list[int]:
    return [segment.base_offset for segment in engine.segments(S) if segment.size_bytes]


# -- records without a timestamp -------------------------------------------------------------------


@pytest.mark.parametrize("stamp", [-1, -2, -FAR])
async def test_without_timestamps_a_segment_is_as_old_as_its_last_write(
    engine: StorageEngine, clock: ManualClock, stamp: int
) -> None:
    await engine.create_shard(spec(retention_ms=HOUR_MS))
    for _ in range(2):
        await engine.append_batch(S, lying_batch(aged(stamp, stamp), max_timestamp=stamp))
        await engine.roll(S)
    await engine.append_batch(S, lying_batch(aged(clock.now_ms() + HOUR_MS)))
    assert await engine.apply_retention(S) == 0
    clock.advance(HOUR_MS // 2)
    assert await engine.apply_retention(S) == 0
    clock.advance(HOUR_MS)
    assert await engine.apply_retention(S) == 2
    assert engine.offsets(S) == (4, 5, 5)
    assert starts(engine) == [4]


async def test_an_active_segment_without_timestamps_goes_when_it_is_quiet(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(retention_ms=HOUR_MS))
    await engine.append_batch(S, lying_batch(aged(-1)))
    clock.advance(2 * HOUR_MS)
    assert await engine.apply_retention(S) == 1
    assert engine.offsets(S) == (1, 1, 1)


async def test_the_last_write_of_a_file_is_its_modification_time(
    tmp_path: Path, clock: ManualClock
) -> None:
    """As it is when the engine first looks at the sealed file."""
    engine = EngineSegment(tmp_path, clock=clock, limits=LIMITS)
    await engine.open()
    await engine.create_shard(spec(retention_ms=HOUR_MS))
    for _ in range(2):
        await engine.append_batch(S, lying_batch(aged(-1)))
        await engine.roll(S)
    old = clock.now_ms() - 2 * HOUR_MS
    await engine.close()
    set_time(tmp_path, segment_file(Offset(0), LOG), old)
    engine = EngineSegment(tmp_path, clock=clock, limits=LIMITS)
    await engine.open()
    assert (await engine.load_segments(S))[0].largest_timestamp == old
    assert await engine.apply_retention(S) == 1
    assert engine.offsets(S).start == 1
    await engine.close()


async def test_one_timestamp_is_enough(engine: StorageEngine, clock: ManualClock) -> None:
    """The time of the last write does not count then."""
    await engine.create_shard(spec(retention_ms=HOUR_MS))
    old = clock.now_ms() - 2 * HOUR_MS
    await engine.append_batch(S, lying_batch(aged(-5, old, -1), max_timestamp=-1))
    (segment,) = engine.segments(S)
    assert (segment.max_timestamp, segment.written_ms) == (old, -1)
    assert await engine.apply_retention(S) == 1


async def test_the_time_of_the_last_write_outlives_a_restart(
    house: House, clock: ManualClock
) -> None:
    engine = house.engine
    await engine.create_shard(spec(retention_ms=HOUR_MS))
    await engine.append_batch(S, lying_batch(aged(-1)))
    await engine.roll(S)
    await engine.append_batch(S, lying_batch(aged(-7)))
    before = engine.segments(S)
    clock.advance(HOUR_MS // 2)
    engine = await house.reopen()
    assert engine.segments(S) == before
    clock.advance(HOUR_MS)
    assert await engine.apply_retention(S) == 2


async def test_compaction_makes_nothing_younger(engine: StorageEngine, clock: ManualClock) -> None:
    """A segment keeps its age when records are taken out of it."""
    await engine.create_shard(spec(retention_ms=HOUR_MS))
    await engine.append_batch(S, lying_batch(aged(-1, -1)))
    await engine.append_batch(S, lying_batch(aged(5)))
    await engine.roll(S)
    for offset in (1, 2):
        await engine.delete_by_offset(S, Offset(offset))
    clock.advance(HOUR_MS // 2)
    assert await engine.compact(S) > 0
    assert engine.segments(S)[0].max_timestamp == -1
    assert await engine.apply_retention(S) == 0
    clock.advance(HOUR_MS)
    assert await engine.apply_retention(S) == 1


async def test_a_segment_without_timestamps_is_sealed_in_time(
    engine: StorageEngine, clock: ManualClock
) -> None:
    """Else a topic that is written all the time would keep its first record until it is full."""
    await engine.create_shard(spec(retention_ms=-1, segment_ms=HOUR_MS))
    for _ in range(3):
        await engine.append_batch(S, lying_batch(aged(-1)))
        await engine.apply_retention(S)
        clock.advance(HOUR_MS // 2 + 1)
    assert starts(engine) == [0]
    await engine.apply_retention(S)
    await engine.append_batch(S, lying_batch(aged(-1)))
    assert starts(engine) == [0, 3]


async def test_all_engines_mean_the_same_first_timestamp(engine: StorageEngine) -> None:
    """That of the first batch, also where it has none."""
    await engine.create_shard(spec(segment_ms=100))
    for stamp in (-1, 1000, 2000):
        await engine.append_batch(S, lying_batch(aged(stamp), max_timestamp=stamp))
    (segment,) = engine.segments(S)
    assert (segment.first_timestamp, segment.max_timestamp) == (-1, 2000)


async def test_memory_keeps_what_was_just_written(tmp_path: Path, clock: ManualClock) -> None:
    """`memory.age.ms.max` goes by the same times."""
    limits = EngineLimits(memory_age_ms_max=HOUR_MS)
    engine = EngineMemory(tmp_path, clock=clock, limits=limits)
    await engine.open()
    await engine.create_shard(spec())
    await engine.append_batch(S, lying_batch(aged(-1)))
    await engine.apply_retention(S)
    assert starts(engine) == [0]
    clock.advance(2 * HOUR_MS)
    await engine.apply_retention(S)
    assert starts(engine) == []
    await engine.close()


# -- headers that lie ------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("log_append_time", [False, True])
@pytest.mark.parametrize("lie", [FAR, -1, 0, -FAR])
async def test_a_header_that_lies_is_set_right(
    engine: StorageEngine, clock: ManualClock, codec: Compression, log_append_time: bool, lie: int
) -> None:
    """Also one that says its time is the node's, which a producer does not know."""
    await engine.create_shard(spec(retention_ms=HOUR_MS))
    old = clock.now_ms() - 2 * HOUR_MS
    await engine.append_batch(
        S,
        lying_batch(
            aged(old - 5, old, -3),
            base_timestamp=old + 77,
            max_timestamp=lie,
            log_append_time=log_append_time,
            compression=codec,
        ),
    )
    data = await engine.read_raw(S, Offset(0))
    ((header, batch),) = iter_batches(data)
    assert check_crc(batch, header)
    assert (header.max_timestamp, header.base_timestamp) == (old, old + 77)
    assert (header.uses_log_append_time, header.compression) == (False, codec)
    assert [one.timestamp for one in decode_batch(header, batch)] == [old - 5, old, -3]
    assert [one.timestamp for one in await read_all(engine)] == [old - 5, old, -3]
    assert engine.segments(S)[0].max_timestamp == old
    assert await engine.apply_retention(S) == 1


async def test_what_the_node_stamps_has_the_nodes_time(
    engine: StorageEngine, clock: ManualClock
) -> None:
    await engine.create_shard(spec(message_timestamp_type="LogAppendTime"))
    for log_append_time in (True, False):
        lie = lying_batch(aged(FAR, -1), max_timestamp=7, log_append_time=log_append_time)
        await engine.append_batch(S, lie)
    found = headers(await engine.read_raw(S, Offset(0)))
    assert {header.max_timestamp for header in found} == {clock.now_ms()}
    assert all(header.uses_log_append_time for header in found)


@pytest.mark.parametrize("lie", [-1, 0, FAR])
async def test_the_future_is_refused_by_the_records_and_not_by_the_header(
    engine: StorageEngine, clock: ManualClock, lie: int
) -> None:
    await engine.create_shard(spec(message_timestamp_after_max_ms=HOUR_MS))
    in_time = clock.now_ms() + HOUR_MS
    with pytest.raises(InvalidTimestamp):
        await engine.append_batch(S, lying_batch(aged(5, in_time + 1, -1), max_timestamp=lie))
    await engine.append_batch(S, lying_batch(aged(5, in_time), max_timestamp=lie))
    assert engine.offsets(S).end == 2


# -- the future ------------------------------------------------------------------------------------


async def test_a_record_of_the_future_holds_up_time_and_not_size(
    engine: StorageEngine, clock: ManualClock
) -> None:
    """As in Kafka: what is not old yet is not due, and what is too much is."""
    await engine.create_shard(spec(retention_ms=HOUR_MS))
    await engine.batch_write(S, aged(FAR))
    await engine.roll(S)
    await engine.batch_write(S, aged(clock.now_ms()))
    await engine.roll(S)
    clock.advance(2 * HOUR_MS)
    assert await engine.apply_retention(S) == 0
    await engine.create_shard(spec(retention_ms=HOUR_MS, retention_bytes=0))
    assert await engine.apply_retention(S) == 2
    assert engine.offsets(S) == (2, 2, 2)


# -- after a restart -------------------------------------------------------------------------------


async def test_recovery_finds_the_same_figures(house: House, clock: ManualClock) -> None:
    """After a restart, and from logs alone."""
    engine = house.engine
    await engine.create_shard(spec())
    old = clock.now_ms() - HOUR_MS
    for stamps in ((-1, old), (-5,), (old + 7, old), (3,)):
        await engine.append_batch(S, lying_batch(aged(*stamps), max_timestamp=FAR))
        await engine.append_batch(S, lying_batch(aged(-9), max_timestamp=FAR))
        await engine.roll(S)
    await engine.append_batch(S, lying_batch(aged(-1), max_timestamp=FAR))
    await engine.append_batch(S, lying_batch(aged(old), max_timestamp=-1))
    before = engine.segments(S)
    assert [one.max_timestamp for one in before] == [old, -1, old + 7, 3, old]
    engine = await house.reopen()
    assert engine.segments(S) == before
    for path in house.data_dir.rglob("*.timeindex"):
        path.unlink()
    engine = await house.reopen()
    assert engine.segments(S) == before
