"""What a truncation costs: as much as it cuts off, however much it keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from stratamq.engine.memory.segment import MemorySegment
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.engine.rocksdb.rows import ShardRows
from stratamq.engine.rocksdb.store import RocksShardStore
from stratamq.log.contract import PlacedBatch
from stratamq.log.disk import RealDisk, RealFile
from stratamq.log.index import KEYS, TAGS
from stratamq.log.kv import RocksKV
from stratamq.log.names import LOG, OFFSET_INDEX, TIME_INDEX, segment_file
from stratamq.log.shard_log import FileShardLog
from stratamq.model.clock import ManualClock
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import BatchHeader, BatchScan
from tests.log.support import NAME, batch, commit, open_log, record
from tests.waiting import every

PER_BATCH = 100
FEW, MANY = 50, 400
"""Batches that are kept."""

CUT = 3
"""Batches that are cut off."""


class Counts:
    """Rows of the index and bytes of files that were looked at."""

    def __init__(self) -> None:
        self.rows = self.bytes = 0


class Cost(NamedTuple):
    rows: int
    bytes: int


class CountingKV(RocksKV):
    def __init__(self, path: Path, counts: Counts) -> None:
        super().__init__(path)
        self._counts = counts

    def scan(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._counted(super().scan(begin, end))

    def scan_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._counted(super().scan_back(begin, end))

    def _counted(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for row in rows:
            self._counts.rows += 1
            self._counts.bytes += len(row[1])
            yield row


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    found = Counts()
    read = RealFile.read

    def counting(file: RealFile, size: int, position: int) -> bytes:
        data = read(file, size, position)
        found.bytes += len(data)
        return data

    monkeypatch.setattr(RealFile, "read", counting)
    return found


@pytest.fixture(scope="module")
def batches() -> list[PlacedBatch]:
    return [
        batch(base, [record(base + number) for number in range(PER_BATCH)])
        for base in range(0, (MANY + CUT) * PER_BATCH, PER_BATCH)
    ]


def cost_of(log: FileShardLog | RocksShardStore, kept: int, counts: Counts) -> Cost:
    end = Offset(kept * PER_BATCH)
    counts.rows = counts.bytes = 0
    log.truncate(end)
    cost = Cost(counts.rows, counts.bytes)
    assert log.end_offset == end
    return cost


def close_to(cost: Cost, other: Cost) -> bool:
    """Apart from a stretch between two index points, which is at most that long."""
    return cost.rows <= other.rows + 50 and cost.bytes <= other.bytes + (256 << 10)


def newest_row(kv: RocksKV) -> int:
    """The largest offset that key and tag rows speak of. They begin with batches or records."""
    rows = [row for row, _ in kv.scan(b"\0", b"\xfe") if row[4:5] in (KEYS, TAGS)]
    return max(int.from_bytes(row[-4:], "big") for row in rows)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_file_log(
    tmp_path: Path, counts: Counts, batches: list[PlacedBatch], sealed: bool
) -> None:
    costs = []
    for kept in (FEW, MANY):
        kv = CountingKV(tmp_path / f"{kept}-kv", counts)
        log = open_log(RealDisk(), kv, tmp_path / f"{kept}")
        commit(log, batches[: kept + CUT])
        if sealed:
            log.roll()
        costs.append(cost_of(log, kept, counts))
        assert (kept - 1) * PER_BATCH <= newest_row(kv) < kept * PER_BATCH
        log.close()
        kv.close()
    assert close_to(costs[1], costs[0]), costs


def test_rows(tmp_path: Path, counts: Counts, batches: list[PlacedBatch]) -> None:
    costs = []
    for kept in (FEW, MANY):
        kv = CountingKV(tmp_path / f"{kept}-kv", counts)
        rows = ShardRows(kv, b"\0\0\0\1")
        log = RocksShardStore(NAME, rows, TopicConfig.of({}), ManualClock())
        log.append(batches[: kept + CUT])
        costs.append(cost_of(log, kept, counts))
        assert (kept - 1) * PER_BATCH <= newest_row(kv) < kept * PER_BATCH
        kv.close()
    assert close_to(costs[1], costs[0]), costs


def test_what_cannot_be_read_leaves_no_rows(
    tmp_path: Path, counts: Counts, batches: list[PlacedBatch]
) -> None:
    """Then all rows of the segment are looked at."""
    kv = CountingKV(tmp_path / "kv", counts)
    log = open_log(RealDisk(), kv, tmp_path / "log")
    commit(log, batches[: FEW + CUT])
    path = tmp_path / "log" / segment_file(Offset(0), LOG)
    with path.open("r+b") as file:
        file.seek(-500, os.SEEK_END)
        file.write(b"damaged")
    log.truncate(Offset(FEW * PER_BATCH))
    assert newest_row(kv) < FEW * PER_BATCH
    kv.close()


def test_a_sealed_segment_whose_sidecars_are_wrong(
    tmp_path: Path, counts: Counts, batches: list[PlacedBatch]
) -> None:
    """Its points come from the log then."""
    for suffix, field in ((OFFSET_INDEX, 0), (OFFSET_INDEX, 4), (TIME_INDEX, 0), (TIME_INDEX, 8)):
        kv = CountingKV(tmp_path / f"{suffix}{field}-kv", counts)
        folder = tmp_path / f"{suffix}{field}"
        log = open_log(RealDisk(), kv, folder)
        commit(log, batches[:FEW])
        right = log._segments.active.points()
        log.roll()
        with (folder / segment_file(Offset(0), suffix)).open("r+b") as file:
            file.seek(field + 3)
            file.write(b"\x7f")
        log.truncate(Offset((FEW - 1) * PER_BATCH))
        assert log._segments.active.points() == right
        kv.close()


def test_memory(batches: list[PlacedBatch], monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that stay are not looked into."""
    scan, scanned = MemoryShardStore.scan, []

    def counting(store: MemoryShardStore, header: BatchHeader, data: bytes) -> BatchScan:
        scanned.append(header.base_offset)
        return scan(store, header, data)

    monkeypatch.setattr(MemoryShardStore, "scan", counting)
    config, clock = TopicConfig.of({}), ManualClock()
    log, whole = MemoryShardStore(config, clock=clock), MemoryShardStore(config, clock=clock)
    log.append(batches[: FEW + CUT])
    whole.append(batches[:FEW])
    log.truncate(Offset(FEW * PER_BATCH))
    assert len(scanned) == CUT
    [cut], [never_cut] = log.snapshot(), whole.snapshot()
    for field in every(MemorySegment.__slots__):
        assert getattr(cut, field) == getattr(never_cut, field), field
