"""`append_batch` of 16 KiB batches by many producers at once, beside a bare loop in the same
groups."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from benchmarks.storage.ceiling import write_loop
from benchmarks.storage.report import Row, median, spread
from stratamq.engine.contract import ShardSpec
from stratamq.engine.segment.engine import EngineSegment
from stratamq.log.disk import File, RealDisk
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import ShardName
from stratamq.wire.kafka.records import encode_batch

PRODUCERS = 128
USUAL_GROUP = 64
"""The bare loop runs before the engine and behind it, and the faster counts: some disks are quick
only for a while."""

SHARD = ShardName("bench_0")
GOALS = {"sync": 0.75, "os": 0.5}


class Case(NamedTuple):
    """How much is written, and why: a burst fits the page cache, a long run must reach the disk."""

    flush: str
    batches: int
    rounds: int
    name: str = ""


CASES = (
    Case("sync", 25_600, 5),
    Case("os", 51_200, 5, " 0.8 GB burst"),
    Case("os", 384_000, 3, " 6 GB sustained"),
)


def batches_of_16_kib() -> list[bytes]:
    """145 records of 100 random bytes: what a Kafka producer with its default batch size sends. One
    for each producer, so that neither side writes the same few bytes out of the cache."""
    return [
        encode_batch([Record(os.urandom(100)) for _ in range(145)], now_ms=0)
        for _ in range(PRODUCERS)
    ]


class CountingDisk(RealDisk):
    """Counts the writes to segment files, to know the groups the engine makes."""

    log_writes = 0

    def open(self, path: Path, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        return CountingFile(self, file) if path.suffix == ".log" else file


class CountingFile:
    def __init__(self, disk: CountingDisk, file: File) -> None:
        self._disk, self._file = disk, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, buffers: Sequence[bytes], position: int, *, durable: bool = False) -> None:
        self._disk.log_writes += 1
        self._file.write(buffers, position, durable=durable)


async def engine_rate(
    folder: Path, sent: Sequence[bytes], batches: int, flush: str
) -> tuple[float, float]:
    """Batches per second, and how many the engine put into one write on average."""
    disk = CountingDisk()
    engine = EngineSegment(folder, disk=disk)
    await engine.open()
    await engine.create_shard(ShardSpec(name=SHARD, config=TopicConfig.of({"flush": flush})))
    disk.log_writes = 0

    async def produce(batch: bytes) -> None:
        for _ in range(batches // PRODUCERS):
            await engine.append_batch(SHARD, batch)

    begin = time.perf_counter()
    await asyncio.gather(*map(produce, sent))
    took = time.perf_counter() - begin
    total = batches // PRODUCERS * PRODUCERS
    group = total / disk.log_writes
    await engine.close()
    return total / took, group


def run() -> list[Row]:
    return [_measured(case) for case in CASES]


def _measured(case: Case) -> Row:
    flush, batches = case.flush, case.batches
    sent = batches_of_16_kib()
    ours: list[float] = []
    bare: list[float] = []
    groups: list[float] = []
    for _ in range(case.rounds):
        folder = Path(tempfile.mkdtemp(prefix="stratamq-bench-"))
        loop = partial(write_loop, folder, sent, batches, sync=flush == "sync")
        before = loop(round(groups[-1]) if groups else USUAL_GROUP)
        rate, group = uvloop.run(engine_rate(folder, sent, batches, flush))
        ours.append(rate)
        groups.append(group)
        bare.append(max(before, loop(max(round(group), 1))))
        shutil.rmtree(folder)
    ratios = [a / b for a, b in zip(ours, bare, strict=True)]
    return Row(
        what=f"append_batch 16 KiB, flush={flush}{case.name}, groups of {median(groups):.0f}",
        ours=_rate(median(ours), len(sent[0])),
        ceiling=_rate(median(bare), len(sent[0])) + " bare",
        ratio=f"{median(ratios):.2f} ({spread(ratios)})",
        goal=f">= {GOALS[flush]}",
        met=median(ratios) >= GOALS[flush],
    )


def _rate(batches_per_second: float, batch_bytes: int) -> str:
    return f"{batches_per_second:,.0f}/s, {batches_per_second * batch_bytes / 1e6:,.0f} MB/s"
