"""Nothing that may stall is done on the event loop's thread: no file is opened, renamed, removed or
synced there, no store is written to, and nothing long is read."""

from __future__ import annotations

import asyncio
import builtins
import io
import os
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from stratamq.engine.contract import AppendResult, ReadLimit, ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.memory.store import MemoryShardStore
from stratamq.engine.producers import shard as producers_shard
from stratamq.engine.segment.engine import EngineSegment
from stratamq.engine.short_reads import BUDGET_BYTES
from stratamq.log.kv import RocksKV
from stratamq.log.snapshots import MemorySnapshots
from stratamq.model.clock import ManualClock
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import BatchHeader, BatchScan, Compression
from tests.engine.conftest import ENGINES
from tests.engine.support import EVERYTHING, NOW, S, T, batch, produced, record, spec, write_all

STALLING = (
    *((os, name) for name in ("open", "remove", "unlink", "rename", "replace", "rmdir", "mkdir")),
    *((os, name) for name in ("truncate", "listdir", "scandir")),
    (builtins, "open"),
    (io, "open"),
)
"""Calls into the file system that take a path."""


class Watch:
    """Notes what the watched thread does that may stall, from `start` on."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.below = ""
        self.found: list[str] = []

    def start(self, below: Path) -> None:
        self.thread, self.below = threading.get_ident(), str(below)

    def note(self, what: str) -> None:
        if threading.get_ident() == self.thread:
            stack = traceback.extract_stack(limit=14)
            ours = [f"{one.name}:{one.lineno}" for one in stack if "stratamq" in one.filename]
            self.found.append(f"{what}: {' > '.join(ours)}")

    def note_path(self, name: str, path: object) -> None:
        if self.thread is not None and str(path).startswith(self.below):
            self.note(f"{name} {path}")


_watch = Watch()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    def noted(owner: object, name: str) -> None:
        real: Callable[..., object] = getattr(owner, name)

        def spy(*args: object, **kwargs: object) -> object:
            _watch.note(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, spy)

    def noted_with_path(owner: object, name: str) -> None:
        real: Callable[..., object] = getattr(owner, name)

        def spy(*args: object, **kwargs: object) -> object:
            _watch.note_path(name, args[0] if args else ".")
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, spy)

    for owner, name in STALLING:
        noted_with_path(owner, name)
    for owner, name in ((os, "fsync"), (os, "fdatasync"), (RocksKV, "write"), (RocksKV, "scan")):
        noted(owner, name)
    _watch.found.clear()
    yield _watch
    _watch.thread = None


async def use(engine: StorageEngine, given: ShardSpec) -> None:
    """Everything an engine does, with enough small batches for a snapshot of its producers."""
    await engine.create_shard(given)
    for number in range(40):
        data = produced(record(b"%d" % number, b"k%d" % (number % 7), b"tag"), sequence=number)
        await engine.append_batch(S, data)
        if number % 10 == 9:
            await engine.roll(S)
    await engine.read_by_offset(S, Offset(0), EVERYTHING)
    await engine.fetch_batches(S, Offset(3))
    await engine.fetch_batches(S, Offset(39))
    await engine.read_by_key(S, b"k3", history=True)
    await engine.read_by_tag(S, b"tag")
    await engine.offset_by_timestamp(S, NOW)
    await engine.delete_by_key(S, b"k2")
    await engine.delete_by_offset(S, Offset(4))
    await engine.compact(S)
    await engine.trim(S, Offset(12))
    await engine.apply_retention(S)
    await engine.truncate(S, Offset(35))
    await write_all(engine, [record(b"again", b"k")])
    await engine.recover_shard(S)
    await engine.create_shard(spec(T))
    await engine.append_batch(T, batch(b"a"))
    await engine.delete_shard(T)


@pytest.mark.parametrize("kind", list(ENGINES))
@pytest.mark.parametrize("flush", ["os", "sync"])
async def test_files_and_stores(tmp_path: Path, watch: Watch, kind: str, flush: str) -> None:
    clock = ManualClock(NOW)
    limits = EngineLimits(workers=2, reader_threads=2, open_files_max=1)
    engine = ENGINES[kind](tmp_path, clock=clock, limits=limits)
    watch.start(tmp_path)
    await engine.open()
    await use(engine, spec(flush=flush, memory_persist=True, cleanup_policy="compact,delete"))
    await engine.close()
    engine = ENGINES[kind](tmp_path, clock=clock, limits=limits)
    await engine.open()
    assert await engine.load_segments(S) == engine.segments(S)
    await engine.close()
    assert not watch.found, "\n".join(watch.found)


async def test_files_that_are_not_open(tmp_path: Path, watch: Watch) -> None:
    """The event loop writes small batches and reads the newest itself, if their file is open. Here
    each shard's is closed to make place for the other's."""
    engine = EngineSegment(tmp_path, limits=EngineLimits(workers=1, open_files_max=1))
    watch.start(tmp_path)
    await engine.open()
    for name in (S, T):
        await engine.create_shard(spec(name))
    for number in range(4):
        for name in (S, T):
            shard = engine._shard(name)
            assert await engine.write(name, record(b"a")) == number
            await engine._change(shard, shard.store.sync)  # as after `flush.ms`: nothing is held
        for name in (S, T):
            assert (await engine.fetch_batches(name, Offset(number))).data
    await engine.close()
    assert not watch.found, "\n".join(watch.found)


# -- memory ----------------------------------------------------------------------------------------

RECORDS, PER_BATCH = 4000, 10
LONG = ReadLimit(records_max=RECORDS, bytes_max=1 << 30)


class Looked:
    """How many bytes of batches each thread has read from memory or scanned there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.here = self.elsewhere = 0
        self._loop = threading.get_ident()
        read, scan = MemoryShardStore.read, MemoryShardStore.scan

        def counting(store: MemoryShardStore, offset: Offset, size: int, end: Offset) -> bytes:
            data = read(store, offset, size, end)
            self._note(len(data))
            return data

        def counting_scan(store: MemoryShardStore, header: BatchHeader, data: bytes) -> BatchScan:
            self._note(len(data))
            return scan(store, header, data)

        monkeypatch.setattr(MemoryShardStore, "read", counting)
        monkeypatch.setattr(MemoryShardStore, "scan", counting_scan)

    def _note(self, size: int) -> None:
        if threading.get_ident() == self._loop:
            self.here += size
        else:
            self.elsewhere += size


@pytest.fixture(params=[True, False], ids=["indexed", "plain"])
async def full_memory(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[EngineMemory]:
    engine = EngineMemory(tmp_path, clock=ManualClock(NOW))
    await engine.open()
    index = {"index_key": request.param, "index_tag": request.param}
    await engine.create_shard(spec(cleanup_policy="compact,delete", **index))
    for first in range(0, RECORDS, PER_BATCH):
        numbers = range(first, first + PER_BATCH)
        records = [record(bytes(500), b"k%d" % (n % 2), b"tag", at=NOW - n) for n in numbers]
        await engine.append_batch(S, batch(*records))
        if first == RECORDS // 2:
            await engine.roll(S)
    yield engine
    await engine.close()


LONG_READS: dict[str, Callable[[EngineMemory], Awaitable[object]]] = {
    "offset": lambda engine: engine.read_by_offset(S, Offset(0), LONG),
    "key": lambda engine: engine.read_by_key(S, b"k1", Offset(0), LONG, history=True),
    "tag": lambda engine: engine.read_by_tag(S, b"tag", Offset(0), LONG),
    "raw": lambda engine: engine.read_raw(S, Offset(0), 1 << 30),
    "delete": lambda engine: engine.delete_by_key(S, b"k1"),
    "compact": lambda engine: engine.compact(S),
}
SIZES = {"offset": RECORDS, "key": RECORDS // 2, "tag": RECORDS, "delete": RECORDS // 2}


@pytest.mark.parametrize("name", list(LONG_READS))
async def test_a_long_read_of_memory_is_for_a_thread(
    full_memory: EngineMemory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    looked = Looked(monkeypatch)
    answer = await LONG_READS[name](full_memory)
    size = answer if isinstance(answer, int) else len(answer)  # type: ignore[arg-type]
    assert size == SIZES.get(name, size)
    assert size
    assert looked.here <= 2 * BUDGET_BYTES
    assert looked.elsewhere > BUDGET_BYTES


async def test_a_short_read_of_memory_is_for_the_event_loop(
    full_memory: EngineMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Looked(monkeypatch)
    limit = ReadLimit(records_max=5)
    assert len(await full_memory.read_by_offset(S, Offset(7), limit)) == 5
    assert len(await full_memory.read_by_tag(S, b"tag", Offset(9), limit)) == 5
    assert (await full_memory.fetch_batches(S, Offset(0), 10_000)).data
    assert await full_memory.offset_by_timestamp(S, TimestampMs(NOW)) == 0
    assert looked.here
    assert not looked.elsewhere


async def test_compressed_batches_are_for_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many records they hold is not known before they are decompressed."""
    engine = EngineMemory(tmp_path)
    await engine.open()
    await engine.create_shard(spec())
    records = [record(bytes(100)) for _ in range(20_000)]
    await engine.append_batch(S, batch(*records, compression=Compression.ZSTD))
    looked = Looked(monkeypatch)
    assert len(await engine.read_by_offset(S, Offset(0), EVERYTHING)) == 20_000
    assert looked.elsewhere
    await engine.close()


async def test_writers_of_a_shard_that_a_thread_changes_come_after_it_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot of producers is made by a thread; what is appended meanwhile waits."""
    held, allowed = threading.Event(), threading.Event()

    def save(*_: object, **__: object) -> None:
        held.set()
        assert allowed.wait(10)

    monkeypatch.setattr(producers_shard, "SNAPSHOT_BATCHES", 3)
    monkeypatch.setattr(MemorySnapshots, "save", save)
    engine = EngineMemory(tmp_path)
    await engine.open()
    for name in (S, T):
        await engine.create_shard(spec(name))
    for number in range(3):
        await engine.append_batch(S, produced(b"%d" % number, sequence=number))
    await asyncio.to_thread(held.wait, 10)
    answers: list[object] = []
    handle = engine.handle(S)
    handle.append(batch(b"begun"), None, answers.append)
    handle.append(batch(b"too"), None, answers.append)
    late = [asyncio.create_task(engine.write(S, record(b"%d" % n))) for n in range(5)]
    assert await engine.write(T, record(b"another shard")) == 0
    assert not answers
    assert not any(one.done() for one in late)
    allowed.set()
    assert await asyncio.gather(*late) == [5, 6, 7, 8, 9]
    assert [one.base_offset for one in answers if isinstance(one, AppendResult)] == [3, 4]
    await engine.close()
