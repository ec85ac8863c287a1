"""Hard cases for Apache Kafka's dump tool, one log each, all read in one go; and record for record
what the tool prints is what was written."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stratamq.log import names, sidecar
from stratamq.log.contract import PlacedBatch
from stratamq.log.disk import RealDisk
from stratamq.log.shard_log import FileShardLog
from stratamq.model.record import Record
from stratamq.model.types import NO_TIMESTAMP, TimestampMs
from stratamq.wire.kafka.records import (
    Compression,
    ControlType,
    decode_batch,
    encode_batch,
    encode_control,
)
from tests.log.support import NOW, ROOM, batches_from, commit, open_log, placed, read_log
from tests.log.test_kafka_dump import COMPLAINT, drop_every_third
from tests.peers.kafka import class_path
from tests.twins.kv import SimKV

pytestmark = [
    pytest.mark.needs("java", "mvn"),
    pytest.mark.timeout(900),
]

Fill = Callable[[FileShardLog], None]


def stamped(base: int, *timestamps: int) -> PlacedBatch:
    records = [
        Record(value=b"v%d" % (base + n), key=b"k%d" % (base + n), timestamp=TimestampMs(time))
        for n, time in enumerate(timestamps)
    ]
    return placed(encode_batch(records, now_ms=NO_TIMESTAMP, base_offset=base, leader_epoch=1))


def one_batch(log: FileShardLog) -> None:
    """Too few records for a point."""
    commit(log, [stamped(0, NOW, NOW + 1)])


def many_points(log: FileShardLog) -> None:
    commit(log, batches_from(0, (1, 2, 3, 4, 5) * 40))


def falling_times(log: FileShardLog) -> None:
    commit(log, [stamped(base, NOW - base, NOW - base - 1) for base in range(0, 60, 2)])


def jumping_times(log: FileShardLog) -> None:
    times = [NOW + base * 7919 % 101 for base in range(80)]
    commit(log, [stamped(base, times[base], times[-base - 1]) for base in range(0, 80, 2)])


def equal_times(log: FileShardLog) -> None:
    commit(log, [stamped(base, NOW, NOW) for base in range(0, 60, 2)])


def no_times(log: FileShardLog) -> None:
    commit(log, [stamped(base, -1, -1) for base in range(0, 60, 2)])


def some_times(log: FileShardLog) -> None:
    commit(
        log, [stamped(base, -1, NOW + base if base % 6 == 4 else -1) for base in range(0, 60, 2)]
    )


def compressed(log: FileShardLog) -> None:
    for base, codec in enumerate(list(Compression) * 6):
        records = [Record(value=b"v%d" % n, key=b"k", timestamp=NOW) for n in range(4)]
        data = encode_batch(
            records, now_ms=NOW, base_offset=base * 4, leader_epoch=0, compression=codec
        )
        commit(log, [placed(data)])


def transactions(log: FileShardLog) -> None:
    for base in range(0, 60, 3):
        data = encode_batch(
            [Record(value=b"v"), Record(value=b"w")],
            now_ms=NOW + base,
            base_offset=base,
            leader_epoch=2,
            producer_id=5,
            producer_epoch=1,
            base_sequence=base // 3 * 2,
            transactional=True,
        )
        mark = encode_control(
            ControlType.ABORT if base % 2 else ControlType.COMMIT,
            producer_id=5,
            producer_epoch=1,
            coordinator_epoch=0,
            now_ms=NOW + base,
            base_offset=base + 2,
            leader_epoch=2,
        )
        commit(log, [placed(data), placed(mark)])


def gaps(log: FileShardLog) -> None:
    """Whole batches are gone, others have lost records."""
    many_points(log)
    log.roll()
    base = log.segments()[0].base_offset
    log.rewrite(base, lambda head, data: None if head.base_offset % 4 == 1 else bytes(data))
    log.rewrite(base, drop_every_third)


def no_sidecars(log: FileShardLog) -> None:
    """Made anew from the log."""
    many_points(log)


CASES: tuple[Fill, ...] = (
    one_batch,
    many_points,
    falling_times,
    jumping_times,
    equal_times,
    no_times,
    some_times,
    compressed,
    transactions,
    gaps,
    no_sidecars,
)


def build(folder: Path, fill: Fill) -> FileShardLog:
    kv = SimKV()
    log = open_log(RealDisk(), kv, folder)
    fill(log)
    log.roll()
    log.close()
    if fill is no_sidecars:
        for path in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
            path.unlink()
        return open_log(RealDisk(), kv, folder)
    return log


def tool(files: list[Path], *options: str) -> str:
    command = ["java", "-cp", class_path(), "kafka.tools.DumpLogSegments", *options]
    result = subprocess.run(
        [*command, "--files", ",".join(map(str, files))],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def logs(tmp_path: Path, dense_points: None) -> dict[str, FileShardLog]:
    return {fill.__name__: build(tmp_path / fill.__name__, fill) for fill in CASES}


def sidecars(folder: Path) -> list[Path]:
    return [path for suffix in sidecar.SIDECARS for path in sorted(folder.glob(f"*/*{suffix}"))]


@pytest.mark.usefixtures("logs")
def test_no_index_entry_leads_astray(tmp_path: Path) -> None:
    files = sidecars(tmp_path)
    assert len(files) >= 2 * len(CASES)
    output = tool(files, "--deep-iteration", "--verify-index-only")
    assert not COMPLAINT.findall(output), output


@pytest.mark.usefixtures("logs")
def test_every_index_is_sane(tmp_path: Path) -> None:
    files = sidecars(tmp_path)
    output = tool(files, "--index-sanity-check")
    empty = output.count("is empty")
    assert empty == 1, "one log is too short for a point"
    assert output.count("passed sanity check") == len(files) - empty, output


RECORD = re.compile(
    r"\| offset: (\d+) CreateTime: (-?\d+) .*? headerKeys: \[[^]]*\](?: key: (.*?))?"
    r"(?: payload: (.*?))?(?: endTxnMarker: .*)?$"
)
Printed = tuple[int, int, str | None, str | None]


def test_the_tool_prints_every_record_as_it_was_written(
    logs: dict[str, FileShardLog], tmp_path: Path
) -> None:
    files = [
        path
        for name in sorted(logs)
        for path in sorted((tmp_path / name).glob("*" + names.LOG))
        if path.stat().st_size
    ]
    output = tool(files, "--deep-iteration", "--print-data-log")
    assert not COMPLAINT.findall(output)
    printed = [printed_record(line) for line in output.splitlines() if line.startswith("| offset")]
    assert printed == [found for name in sorted(logs) for found in written(logs[name])]
    assert len(printed) > 600


def printed_record(line: str) -> Printed:
    match = RECORD.match(line)
    assert match, line
    return int(match[1]), int(match[2]), match[3], match[4]


def written(log: FileShardLog) -> Iterator[Printed]:
    for header, data in read_log(log).batches:
        for found in decode_batch(header, data, ROOM):
            key, value = (None, None) if header.is_control else (found.key, found.value)
            yield found.offset, found.timestamp, text(key), text(value)


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
