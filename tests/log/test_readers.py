"""Readers in threads of their own while the writer appends, rolls, cuts, trims and rewrites.

On the real disk and RocksDB. The content tells where it belongs: batch `n` holds the offsets from
5n to 5n + 4, and every record says its offset. Nothing below `floor` is ever cut off, so it must be
found there, whole and in place, at any moment; except for what compaction may take: every fourth
batch, and the middle record of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from stratamq.log.contract import PlacedBatch
from stratamq.log.disk import RealDisk
from stratamq.log.kv import RocksKV
from stratamq.log.shard_log import FileShardLog
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.record import Record
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import BatchHeader, decode_batch, drop_records, iter_batches
from tests.log.support import NOW, ROOM, batch, commit, open_log
from tests.log.test_open_files import eager_switching, run_threads

__all__ = ["eager_switching"]

pytestmark = pytest.mark.usefixtures("dense_points", "eager_switching")

ROUNDS = 100
PER_BATCH = 5
KEYS = 7


def is_whole_batch_gone(offset: int) -> bool:
    return offset // PER_BATCH % 4 == 3


def may_be_gone(offset: int) -> bool:
    return is_whole_batch_gone(offset) or offset % PER_BATCH == 2


def numbered(base: int, version: int) -> PlacedBatch:
    return batch(
        base,
        [
            Record(
                value=b"%d:%d:" % (offset, version) + b"x" * (version % 90),
                key=b"k%d" % (offset % KEYS),
                tags=(b"t%d" % (offset % 3),),
                timestamp=TimestampMs(NOW + offset),
            )
            for offset in range(base, base + PER_BATCH)
        ],
    )


def compacted(header: BatchHeader, data: memoryview) -> bytes | None:
    if is_whole_batch_gone(header.base_offset):
        return None
    return drop_records(header, data, [header.base_offset + 2], ROOM)


class Shared:
    """What the writer tells the readers: below `floor` nothing is cut off any more."""

    def __init__(self, log: FileShardLog) -> None:
        self.log = log
        self.floor = 0
        self.done = threading.Event()
        self.reads = 0


def write(shared: Shared) -> None:
    log, rng = shared.log, Random(1)
    try:
        for _ in range(ROUNDS):
            end = log.end_offset
            commit(log, [numbered(end + n * PER_BATCH, rng.randrange(1000)) for n in range(4)])
            change_the_past(log, shared, rng)
    finally:
        shared.done.set()


def change_the_past(log: FileShardLog, shared: Shared, rng: Random) -> None:
    end = log.end_offset
    kind = rng.random()
    if kind < 0.25:
        cut = max(shared.floor, end - rng.randrange(12) * PER_BATCH)
        log.truncate(Offset(cut))
    elif kind < 0.4:
        log.roll()
    elif kind < 0.6 and len(log.segments()) > 2:
        log.rewrite(rng.choice(log.segments()[:-1]).base_offset, compacted)
    elif kind < 0.7 and end - log.start_offset > 400:
        log.trim(Offset(log.start_offset + rng.randrange(20) * PER_BATCH))
    shared.floor = max(shared.floor, log.end_offset - 50)


def read(shared: Shared, seed: int) -> None:
    rng = Random(seed)
    while not shared.done.is_set():
        floor = shared.floor
        start = shared.log.start_offset
        if floor <= start:
            continue
        offset = rng.randrange(start, floor)
        try:
            data = shared.log.read(
                Offset(offset), rng.choice((1, 500, 5000)), shared.log.end_offset
            )
        except OffsetOutOfRange:
            assert shared.log.start_offset > offset
            continue
        check_answer(data, offset, floor, shared.log)
        shared.reads += 1


def check_answer(data: bytes, offset: int, floor: int, log: FileShardLog) -> None:
    """Everything from the offset on that is below the floor, in order, every record in place."""
    expected = offset - offset % PER_BATCH
    for header, view in iter_batches(data):
        while is_whole_batch_gone(expected) and header.base_offset > expected:
            expected += PER_BATCH
        if header.base_offset != expected and expected < floor:
            assert log.start_offset > expected, f"asked for {offset}, got {header.base_offset}"
        expected = header.next_offset
        found = {record.offset: record for record in decode_batch(header, view, ROOM)}
        for at, record in found.items():
            assert record.value is not None
            assert record.value.startswith(b"%d:" % at)
        if not is_whole_batch_gone(header.base_offset):
            span = range(header.base_offset, header.next_offset)
            assert all(at in found or may_be_gone(at) for at in span)
    if not data:
        assert is_whole_batch_gone(offset) or log.start_offset > offset


def look_up(shared: Shared, seed: int) -> None:
    rng = Random(seed)
    log = shared.log
    while not shared.done.is_set():
        floor, number = shared.floor, rng.randrange(KEYS)
        found = set(known(log.offsets_by_key(b"k%d" % number, log.end_offset)))
        tagged = set(known(log.offsets_by_tag(b"t%d" % (number % 3), Offset(0), log.end_offset)))
        start = log.start_offset
        for offset in range(start, floor):
            if not may_be_gone(offset):
                assert offset % KEYS != number or offset in found
                assert offset % 3 != number % 3 or offset in tagged
        if floor > start and not may_be_gone(wanted := rng.randrange(start, floor)):
            begin = log.floor_by_timestamp(TimestampMs(NOW + wanted))
            assert begin <= max(wanted, log.start_offset)
            assert log.segments()[-1].active


def known(offsets: Iterator[Offset] | None) -> Iterator[Offset]:
    assert offsets is not None
    return offsets


def test_readers_never_see_a_wrong_or_missing_record(tmp_path: Path) -> None:
    kv = RocksKV(tmp_path / "index")
    log = open_log(RealDisk(open_files_max=4), kv, tmp_path / "shard", segment_bytes=4096)
    shared = Shared(log)
    try:
        run_threads(
            [
                lambda: write(shared),
                lambda: read(shared, 1),
                lambda: read(shared, 2),
                lambda: look_up(shared, 3),
            ]
        )
    finally:
        shared.done.set()
        log.close()
        kv.close()
    assert shared.reads > 50
