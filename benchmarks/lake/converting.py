"""A sealed segment to Parquet and back, beside what the codec and the warm log do alone."""

from __future__ import annotations

import random
import statistics
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
from stratamq.engine.segment import EngineSegment
from stratamq.lake.parquet import (
    ColdFile,
    FileLayout,
    FileSource,
    FileSummary,
    read_chunks,
    write_file,
)
from stratamq.lake.parquet.values import value_columns
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName
from stratamq.wire.kafka.records import walk

BATCHES = 12_000
FETCH_BYTES = 1 << 20
SHARD = ShardName("bench_0")
ROUNDS = 3
SEEKS = 15
CODEC_PIECE_BYTES = 1 << 20
"""Parquet compresses page by page, and a page has about 1 MiB."""


class Cold(NamedTuple):
    path: Path
    summary: FileSummary


async def fill(folder: Path) -> list[float]:
    """A shard with one segment. The rates of reading it as a fetch does."""
    engine = EngineSegment(folder)
    await engine.open()
    await engine.create_shard(ShardSpec(name=SHARD, config=TopicConfig.of({"flush": "os"})))
    for batch in batches(BATCHES):
        await engine.append_batch(SHARD, batch)
    rates = [await _warm_rate(engine) for _ in range(ROUNDS)]
    await engine.close()
    return rates


async def _warm_rate(engine: EngineSegment) -> float:
    offset, size, begin = Offset(0), 0, time.process_time()
    while data := (await engine.fetch_batches(SHARD, offset, FETCH_BYTES)).data:
        size += len(data)
        offset = Offset(walk(data)[-1].last_offset + 1)
    return size / 1e6 / (time.process_time() - begin)


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


def cold_rate(cold: Cold) -> float:
    source = FileSource(cold.path)
    file = ColdFile(source, cold.path.name, cold.summary.footer)
    offset, size, end, begin = 0, 0, cold.summary.last_offset + 1, time.process_time()
    while data := file.read(offset, FETCH_BYTES, end):
        size += len(data)
        offset = walk(data)[-1].last_offset + 1
    took = time.process_time() - begin
    source.close()
    return size / 1e6 / took


def first_bytes_ms(cold: Cold) -> list[float]:
    """Opening the file and reading one batch, somewhere."""
    rng, found = random.Random(5), []
    for _ in range(SEEKS):
        offset = rng.randrange(cold.summary.last_offset)
        begin = time.perf_counter()
        source = FileSource(cold.path)
        ColdFile(source, cold.path.name, cold.summary.footer).read(offset, 1, 1 << 62)
        found.append((time.perf_counter() - begin) * 1e3)
        source.close()
    return found


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="stratamq-bench-") as name:
        folder = Path(name)
        warm = uvloop.run(fill(folder / "node"))
        (log,) = folder.glob("node/**/00000000000000000000.log")
        path = folder / "cold.parquet"
        rows = [
            _conversion(log, path, "key and value, zstd 3", FileLayout(partition=0, zstd_level=3)),
            _conversion(log, path, "typed columns", _typed(), goal=80),
        ]
        layout = FileLayout(partition=0)
        rows.insert(0, _conversion(log, path, "key and value", layout, goal=150))
        cold = Cold(path, convert(log, path, layout)[1])
        return [*rows, _size(log, cold), _reading(cold, warm), _seeking(cold)]


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


def _reading(cold: Cold, warm: list[float]) -> Row:
    rate, beside = _best(lambda: cold_rate(cold)), max(warm)
    return Row(
        what="Parquet to batches, in order, 1 MiB at a time",
        ours=f"{rate:,.0f} MB/s per core",
        ceiling=f"{beside:,.0f} MB/s warm",
        ratio=f"{rate / beside:.2f}",
        goal=">= 0.5",
        met=rate / beside >= 0.5,
    )


def _seeking(cold: Cold) -> Row:
    found = first_bytes_ms(cold)
    return Row(
        what=f"first byte of a random read, file on local disk, {SEEKS} reads",
        ours=f"p50 {statistics.median(found):.0f} ms, max {max(found):.0f} ms",
        goal="all <= 100 ms",
        met=max(found) <= 100,
    )
