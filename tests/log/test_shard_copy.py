"""A shard's copy for a backup: the log up to an offset, in files that the shard does not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratamq.log.disk import RealDisk
from stratamq.log.shard_log import FileShardLog
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import iter_batches
from tests.log.support import batches_from, open_log
from tests.twins.disk import SimDisk
from tests.twins.kv import SimKV
from tests.waiting import every

PER_BATCH = 5
BATCHES = 40


def ignore(count: int) -> None:
    return


def copied(log: FileShardLog, target: Path, end: int) -> Path:
    copy = log.copy_to(target, Offset(end))
    while not copy.is_whole:
        copy.take()
        copy.write(ignore)
    return target


@pytest.fixture
def log(tmp_path: Path) -> FileShardLog:
    """Many small segments: they are taken in several calls."""
    log = open_log(RealDisk(), SimKV(), folder=tmp_path / "shard", segment_bytes=1024)
    append(log, BATCHES)
    return log


def content(log: FileShardLog, end: Offset, start: Offset = Offset(0)) -> list[bytes]:
    """The batches from `start` to `end`."""
    found: list[bytes] = []
    while start < end:
        for header, data in every(iter_batches(log.read(start, 1 << 20, end))):
            found.append(bytes(data))
            start = Offset(header.next_offset)
    return found


def append(log: FileShardLog, batches: int, seed: int = 0) -> None:
    for _ in range(batches):
        log.append(batches_from(log.end_offset, [PER_BATCH], seed=seed))
    log.sync()
    log.flush_index()


def opened(folder: Path) -> FileShardLog:
    return open_log(RealDisk(), SimKV(), folder=folder, segment_bytes=1024)


@pytest.mark.parametrize("batches", range(BATCHES + 1))
def test_the_copy_ends_where_it_should(log: FileShardLog, tmp_path: Path, batches: int) -> None:
    end = Offset(batches * PER_BATCH)
    copy = opened(copied(log, tmp_path / "copy", end))
    assert (copy.start_offset, copy.end_offset, copy.damage) == (0, end, [])
    assert content(copy, end) == content(log, end)
    append(copy, 3)
    assert copy.end_offset == end + 3 * PER_BATCH


def test_a_log_goes_on_between_two_calls(log: FileShardLog, tmp_path: Path) -> None:
    end = log.end_offset
    copy = log.copy_to(tmp_path / "copy", end)
    whole = content(log, end)
    while not copy.is_whole:
        append(log, 7)
        log.trim(Offset(log.start_offset + PER_BATCH))
        copy.take()
        append(log, 7)
        copy.write(ignore)
    found = opened(tmp_path / "copy")
    start = found.start_offset
    assert (found.end_offset, found.damage) == (end, [])
    assert 0 < start < end
    assert content(found, end, start) == whole[start // PER_BATCH :]


def test_truncating_the_log_leaves_the_copy_whole(log: FileShardLog, tmp_path: Path) -> None:
    """A sealed segment that is cut becomes the active one, and is written to."""
    end = log.end_offset
    whole = content(log, end)
    copied(log, tmp_path / "copy", end)
    cut = log.segments()[2]
    log.truncate(Offset(cut.base_offset + PER_BATCH))
    assert cut.base_offset < log.end_offset < cut.end_offset
    append(log, 30, seed=1009)
    copy = opened(tmp_path / "copy")
    assert (copy.end_offset, copy.damage) == (end, [])
    assert content(copy, end) == whole


def test_where_the_file_system_cannot_link_all_is_copied(tmp_path: Path) -> None:
    disk = SimDisk()
    disk.make_folder(Path("/data"))
    log = open_log(disk, SimKV(), segment_bytes=1024)
    append(log, BATCHES)
    copy = opened(copied(log, tmp_path / "copy", log.end_offset))
    assert copy.damage == []
    assert content(copy, log.end_offset) == content(log, log.end_offset)
