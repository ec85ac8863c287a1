"""Apache Kafka's own dump tool reads our sealed segments and finds nothing to complain about."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratamq.log.disk import RealDisk
from stratamq.log.index import IndexStore
from stratamq.log.kv import RocksKV
from stratamq.log.shard_log import FileShardLog
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import LeaderEpoch, TimestampMs
from stratamq.wire.kafka.records import (
    Compression,
    ControlType,
    drop_records,
    encode_batch,
    encode_control,
    place_batch,
    read_header,
)
from tests.log.support import NAME, NOW, placed
from tests.peers.kafka import class_path

pytestmark = [pytest.mark.needs("java", "mvn"), pytest.mark.timeout(900)]

COMPLAINT = re.compile(r"mismatch|exception|error|corrupt|not found|out of order|invalid", re.I)


def history(rng: random.Random) -> Iterator[bytes]:
    """Batches of every kind: compressed, transactional, control, times out of order and missing."""
    for number in range(500):
        if number % 50 == 49:
            yield encode_control(
                ControlType.COMMIT,
                producer_id=7,
                producer_epoch=0,
                coordinator_epoch=0,
                now_ms=NOW + number,
            )
            continue
        transactional = number % 10 == 3
        yield encode_batch(
            [record(rng) for _ in range(rng.randrange(1, 60))],
            now_ms=-1 if number % 17 == 0 else NOW,
            compression=rng.choice(list(Compression)),
            producer_id=7 if transactional else -1,
            producer_epoch=0 if transactional else -1,
            base_sequence=number if transactional else -1,
            transactional=transactional,
        )


def record(rng: random.Random) -> Record:
    return Record(
        value=rng.randbytes(rng.randrange(50)) if rng.random() < 0.9 else None,
        key=b"key-%d" % rng.randrange(20) if rng.random() < 0.8 else None,
        headers=((b"h", b"v"),),
        tags=(b"t",),
        timestamp=TimestampMs(NOW + rng.randrange(1000) if rng.random() < 0.95 else -1),
    )


def fill(log: FileShardLog, rng: random.Random) -> None:
    for number, data in enumerate(history(rng)):
        epoch = LeaderEpoch(number // 100)
        _, parts = place_batch(read_header(data), data, log.end_offset, epoch)
        log.append([placed(b"".join(parts))])
        log.sync()
        log.flush_index()
    log.roll()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FileShardLog]:
    kv = RocksKV(tmp_path / "index")
    config = TopicConfig.of({"segment.bytes": 150_000})
    (tmp_path / NAME).mkdir()
    yield FileShardLog(
        RealDisk(), tmp_path / NAME, NAME, IndexStore(kv), config, 1 << 24, fresh=True
    )
    kv.close()


def dumped(files: list[Path]) -> str:
    """What the tool prints, with every record looked into and every index entry followed."""
    command = ["java", "-cp", class_path(), "kafka.tools.DumpLogSegments", "--deep-iteration"]
    names = ",".join(map(str, files))
    result = subprocess.run(
        [*command, "--files", names], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr  # findings about indexes go to the second


def sealed_files(log: FileShardLog, folder: Path) -> list[Path]:
    sealed = [segment for segment in log.segments() if not segment.active]
    assert len(sealed) > 1
    return [
        folder / f"{segment.base_offset:020d}{suffix}"
        for segment in sealed
        for suffix in (".log", ".index", ".timeindex")
    ]


def drop_every_third(header: object, data: memoryview) -> bytes | None:
    batch = read_header(data)
    if batch.is_control:
        return bytes(data)
    return drop_records(batch, data, range(batch.base_offset, batch.next_offset, 3))


def test_sealed_segments_as_written_and_as_compacted(log: FileShardLog, tmp_path: Path) -> None:
    fill(log, random.Random(5))
    files = sealed_files(log, tmp_path / NAME)
    output = dumped(files)
    assert not COMPLAINT.findall(output)
    assert f"offset: {log.end_offset - 1} " in output
    assert output.count("position: ") > 50

    for segment in log.segments()[:-1]:
        log.rewrite(segment.base_offset, drop_every_third)
    assert not COMPLAINT.findall(dumped(sealed_files(log, tmp_path / NAME)))


def test_the_tool_would_notice(log: FileShardLog, tmp_path: Path) -> None:
    """An index entry that leads astray is found: so silence means something."""
    fill(log, random.Random(6))
    index = next(path for path in sealed_files(log, tmp_path / NAME) if path.suffix == ".index")
    entries = bytearray(index.read_bytes())
    entries[3] ^= 1  # another offset for the first entry
    index.write_bytes(entries)
    assert COMPLAINT.search(dumped([index]))
