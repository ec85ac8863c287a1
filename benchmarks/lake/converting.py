"""A sealed segment to Parquet, beside what the codec does alone."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import cramjam
import uvloop

from benchmarks.lake.readings import SCHEMA, batches
from benchmarks.storage.report import Row
from stratamq.engine.contract import ShardSpec
from stratamq.engine.segment.engine import EngineSegment
from stratamq.lake.parquet.values import value_columns
from stratamq.lake.parquet.writing import FileLayout, FileSummary, read_chunks, write_file
from stratamq.model.topic import TopicConfig
from stratamq.model.types import ShardName

BATCHES = 12_000
SHARD = ShardName("bench_0")
ROUNDS = 3
CODEC_PIECE_BYTES = 1 << 20
"""Parquet compresses page by page, and a page has about 1 MiB."""


class Cold(NamedTuple):
    path: Path
    summary: FileSummary


async def fill(folder: Path) -> None:
    """A shard with one segment."""
    engine = EngineSegment(folder)
    await engine.open()
    await engine.create_shard(ShardSpec(name=SHARD, config=TopicConfig.of({"flush": "os"})))
    for batch in batches(BATCHES):
        await engine.append_batch(SHARD, batch)
    await engine.close()


def convert(log: Path, path: Path, layout: FileLayout) -> tuple[float, FileSummary]:
    """MB of segment per second of processor time."""
    begin = time.process_time()
    with log.open("rb") as source, path.open("wb") as sink:
        summary = write_file(read_chunks(source), sink, layout)
    return log.stat().st_size / 1e6 / (time.process_time() - begin), summary


def codec_rate(log: Path, level: int) -> float:
    """The codec alone, over the same bytes."""
    data = log.read_bytes()
    begin = time.process_time()
    for start in range(0, len(data), CODEC_PIECE_BYTES):
        cramjam.zstd.compress(data[start : start + CODEC_PIECE_BYTES], level=level)
    return len(data) / 1e6 / (time.process_time() - begin)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="stratamq-bench-") as name:
        folder = Path(name)
        uvloop.run(fill(folder / "node"))
        (log,) = folder.glob("node/**/00000000000000000000.log")
        path = folder / "cold.parquet"
        rows = [
            _conversion(log, path, "key and value, zstd 3", FileLayout(partition=0, zstd_level=3)),
            _conversion(log, path, "typed columns", _typed(), goal=80),
        ]
        layout = FileLayout(partition=0)
        rows.insert(0, _conversion(log, path, "key and value", layout, goal=150))
        cold = Cold(path, convert(log, path, layout)[1])
        return [*rows, _size(log, cold)]


def _typed() -> FileLayout:
    return FileLayout(partition=0, values=value_columns("json", SCHEMA))


def _conversion(log: Path, path: Path, what: str, layout: FileLayout, goal: int = 0) -> Row:
    rate = _best(lambda: convert(log, path, layout)[0])
    codec = _best(lambda: codec_rate(log, layout.zstd_level))
    return Row(
        what=f"segment to Parquet, {what}",
        ours=f"{rate:,.0f} MB/s per core",
        ceiling=f"{codec:,.0f} MB/s zstd alone",
        ratio=f"{rate / codec:.2f}",
        goal=f">= {goal} MB/s" if goal else "",
        met=rate >= goal if goal else None,
    )


def _best(measure: Callable[[], float]) -> float:
    """The fastest of a few: the others measure what else the machine does."""
    return max(measure() for _ in range(ROUNDS))


def _size(log: Path, cold: Cold) -> Row:
    raw = log.stat().st_size
    return Row(
        what=f"size of {cold.summary.rows:,} JSON records",
        ours=f"{cold.summary.size_bytes / 1e6:,.0f} MB",
        ceiling=f"{raw / 1e6:,.0f} MB raw log",
        ratio=f"{cold.summary.size_bytes / raw:.2f}",
    )
