"""EngineRocksDB alone: one write per commit, crashes, failures, damage, and rows left behind."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from rocksdict import Rdict

from stratamq.engine.engine import StorageEngine
from stratamq.engine.layout import ROCKSDB_FOLDER
from stratamq.engine.limits import EngineLimits
from stratamq.engine.rocksdb.engine import COLUMN_FAMILY, EngineRocksDB
from stratamq.engine.rocksdb.rows import SEGMENTS, UNTIMED_ROW
from stratamq.log.kv import KVBatch
from stratamq.model.clock import ManualClock
from stratamq.model.errors import (
    CorruptRecord,
    DiskFull,
    ShardPoisoned,
    StorageError,
)
from stratamq.model.types import LeaderEpoch, Offset
from tests.engine.lying import lying_batch
from tests.engine.support import (
    NOW,
    S,
    T,
    batch,
    fill_segments,
    offsets,
    read_all,
    record,
    spec,
    values,
    write_all,
)
from tests.twins.disk import Crash
from tests.twins.kv import Loss, SimBatch, SimKV
from tests.waiting import let_pass, let_run, until

LIMITS = EngineLimits(workers=2, reader_threads=1)


@asynccontextmanager
async def engine_over(kv: SimKV) -> AsyncIterator[EngineRocksDB]:
    engine = EngineRocksDB(
        Path("/nowhere"), clock=ManualClock(NOW), limits=LIMITS, open_kv=lambda *_, **__: kv
    )
    await engine.open()
    try:
        yield engine
    finally:
        kv.before_write = lambda sync: None
        await engine.close()


class Writes:
    """Counts writes, and fails the one it was told to."""

    def __init__(self, kv: SimKV, fail_at: int = -1, error: BaseException | None = None) -> None:
        self.syncs: list[bool] = []
        self.fail_at, self.error = fail_at, error
        kv.before_write = self

    def __call__(self, sync: bool) -> None:
        self.syncs.append(sync)
        if len(self.syncs) == self.fail_at and self.error is not None:
            raise self.error


class Broken:
    """A store that takes no write."""

    def __call__(self, sync: bool) -> None:
        raise StorageError("still gone")


# -- commits ---------------------------------------------------------------------------------------


async def test_one_write_commits_many_shards() -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        shards = [f"topic_{number}" for number in range(10)]
        for name in shards:
            await engine.create_shard(spec(name, flush="sync"))  # type: ignore[arg-type]
        writes = Writes(kv)
        await asyncio.gather(
            *(engine.write(name, record(b"v")) for name in shards for _ in range(20))  # type: ignore[arg-type]
        )
        assert len(writes.syncs) < 50, "as many as drains, not as many as the 200 requests"
        assert all(writes.syncs)


@pytest.mark.parametrize(("flush", "synced"), [("sync", True), ("os", False), ("interval", False)])
async def test_an_acknowledgement_syncs_when_the_topic_says_so(flush: str, synced: bool) -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec(flush=flush, flush_ms=60_000))
        writes = Writes(kv)
        await engine.write(S, record(b"v"))
        assert writes.syncs == [synced]


async def test_interval_syncs_once_for_many_writes() -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec(flush="interval", flush_ms=60_000))
        writes = Writes(kv)
        await write_all(engine, [record(b"v")] * 5)
        assert True not in writes.syncs
        let_pass(60)
        await until(lambda: True in writes.syncs)
        let_pass(60)
        await let_run()
        assert writes.syncs.count(True) == 1, "nothing new, nothing to sync"
        await engine.write(S, record(b"v"))
        let_pass(60)
        await until(lambda: writes.syncs.count(True) == 2)


async def test_deleting_a_shard_costs_the_same_however_large_it_is() -> None:
    """Ranges go, not rows: neither memory nor the store's lock is held for long."""
    kv, sizes = SimKV(), []
    write = kv.write

    def measured(batch: KVBatch, *, sync: bool = False) -> None:
        assert isinstance(batch, SimBatch)
        sizes.append(len(batch.changes))
        write(batch, sync=sync)

    async with engine_over(kv) as engine:
        for shard, count in ((S, 1), (T, 500)):
            await engine.create_shard(spec(shard))
            await engine.batch_write(shard, [record(b"v", b"k%d" % n, b"t") for n in range(count)])
        kv.write = measured  # type: ignore[method-assign]
        for shard in (S, T):
            await engine.delete_shard(shard)
        kv.write = write  # type: ignore[method-assign]
        assert sizes[0] == sizes[1] <= 4, sizes
    assert not [key for key in kv.rows() if not key.startswith(b"\xff\xff\xff\xff")]


# -- crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
async def test_a_power_cut_takes_nothing_that_was_acknowledged_as_synced(seed: int) -> None:
    kv, chance = SimKV(), Random(seed)
    async with engine_over(kv) as engine:
        await engine.create_shard(spec(S, flush="sync", segment_bytes=1024))
        await engine.create_shard(spec(T, flush="os", segment_bytes=1024))
        for number in range(30):
            await engine.write(chance.choice((S, T)), record(b"%d" % number, b"k", b"t"))
        acknowledged = await read_all(engine, S)
        promised = await read_all(engine, T)
        found = kv.after_crash(Loss.SUFFIX, chance)
    async with engine_over(found) as engine:
        assert await read_all(engine, S) == acknowledged
        survived = await read_all(engine, T)
        assert survived == promised[: len(survived)], "a prefix, and nothing invented"
        for shard in (S, T):
            there = offsets(await read_all(engine, shard))
            assert offsets(await engine.read_by_tag(shard, b"t")) == there
            assert offsets(await engine.read_by_key(shard, b"k", history=True)) == there[::-1]
            assert await engine.write(shard, record(b"next")) == len(there)


async def prepared(engine: StorageEngine) -> None:
    await engine.create_shard(spec(cleanup_policy="compact", segment_bytes=1024))
    await engine.batch_write(S, [record(b"%d" % n * 99, b"k%d" % (n % 4), b"t") for n in range(8)])
    await fill_segments(
        engine,
        [record(b"%d" % n * 99, b"k%d" % (n % 4), b"t") for n in range(8, 16)],
        [record(b"last", b"k0", b"t")],
    )
    await engine.append_batch(S, batch(record(b"led", b"k1", b"t")), LeaderEpoch(3))
    await engine.delete_by_offset(S, Offset(2))


CHANGES: dict[str, Callable[[StorageEngine], Awaitable[object]]] = {
    "append": lambda engine: engine.batch_write(S, [record(b"x" * 600, b"k0", b"t")] * 2),
    "append under a new epoch": lambda engine: engine.append_batch(
        S, batch(record(b"x", b"k")), LeaderEpoch(9)
    ),
    "roll": lambda engine: engine.roll(S),
    "truncate": lambda engine: engine.truncate(S, Offset(9)),
    "trim": lambda engine: engine.trim(S, Offset(9)),
    "trim to the end": lambda engine: engine.trim(S, Offset(18)),
    "delete by key": lambda engine: engine.delete_by_key(S, b"k0"),
    "configure": lambda engine: engine.create_shard(spec(cleanup_policy="delete")),
    "delete the shard": lambda engine: engine.delete_shard(S),
}


async def everything(engine: StorageEngine) -> object:
    if S not in engine.list_shards():
        return None
    return (
        engine.list_shards()[S],
        engine.offsets(S),
        engine.epochs(S),
        await read_all(engine),
        await engine.read_by_tag(S, b"t"),
        [await engine.read_by_key(S, b"k%d" % n, history=True) for n in range(4)],
    )


@pytest.mark.parametrize("change", list(CHANGES))
async def test_a_crash_at_any_write_leaves_before_or_after(change: str) -> None:
    origin = SimKV()
    async with engine_over(origin) as engine:
        await prepared(engine)
        before = await everything(engine)
        start = origin.copy()
    async with engine_over(whole := start.copy()) as engine:
        writes = Writes(whole)
        await CHANGES[change](engine)
        count, after = len(writes.syncs), await everything(engine)
    assert count > 0
    for number in range(1, count + 1):
        async with engine_over(kv := start.copy()) as engine:
            Writes(kv, number, Crash())
            with pytest.raises(Crash):
                await CHANGES[change](engine)
            for loss in (Loss.KILLED, Loss.UNSYNCED):
                async with engine_over(kv.after_crash(loss, Random(0))) as found:
                    assert await everything(found) in (before, after)


async def newest(engine: StorageEngine) -> list[object]:
    return [await engine.read_by_key(S, b"k%d" % n) for n in range(4)]


async def test_a_crash_at_any_write_of_a_compaction_does_no_harm() -> None:
    """Segments are rewritten one by one; the newest of each key is there all the time."""
    origin = SimKV()
    async with engine_over(origin) as engine:
        await prepared(engine)
        before = await newest(engine)
        start = origin.copy()
    async with engine_over(whole := start.copy()) as engine:
        writes = Writes(whole)
        assert await engine.compact(S) > 0
        count, after = len(writes.syncs), await everything(engine)
    assert count > 1
    for number in range(1, count + 1):
        async with engine_over(kv := start.copy()) as engine:
            Writes(kv, number, Crash())
            with pytest.raises(Crash):
                await engine.compact(S)
            for loss in (Loss.KILLED, Loss.UNSYNCED):
                async with engine_over(kv.after_crash(loss, Random(0))) as found:
                    assert await newest(found) == before
                    await found.compact(S)
                    assert await everything(found) == after


async def test_compaction_in_many_writes_is_whole_at_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log may be any mixture of compacted and not: what can be read of it is the same."""
    monkeypatch.setattr("stratamq.engine.rocksdb.store.REWRITE_BYTES_MAX", 1)
    origin = SimKV()
    async with engine_over(origin) as engine:
        await engine.create_shard(spec())
        await write_all(engine, [record(b"%d" % n, b"k", b"t") for n in range(10)])
        for offset in (1, 4, 5, 9):
            await engine.delete_by_offset(S, Offset(offset))
        await engine.roll(S)
        before = await everything(engine)
        start = origin.copy()
    async with engine_over(whole := start.copy()) as engine:
        writes = Writes(whole)
        await engine.compact(S)
        assert await everything(engine) == before
        count = len(writes.syncs)
    assert count >= 5
    for number in range(1, count + 1):
        async with engine_over(kv := start.copy()) as engine:
            Writes(kv, number, Crash())
            with pytest.raises(Crash):
                await engine.compact(S)
            async with engine_over(kv.after_crash(Loss.KILLED, Random(0))) as found:
                assert await everything(found) == before
                await found.compact(S)
                assert await everything(found) == before


async def test_rows_of_an_earlier_version_count_as_written_now() -> None:
    """They do not say when a segment was last written."""
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec(retention_ms=1000))
        await engine.append_batch(S, lying_batch([record(b"v", at=-1)]))
        kv = kv.copy()
    key, row = next((key, row) for key, row in kv.rows().items() if key[4:5] == SEGMENTS)
    old = kv.batch()
    old.put(key, row[: UNTIMED_ROW.size])
    kv.write(old)
    async with engine_over(kv) as engine:
        assert engine.segments(S)[0].written_ms == NOW
        assert await engine.apply_retention(S) == 0


async def test_a_deleted_shard_leaves_no_row() -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec(T))
        empty = kv.rows()
        await prepared(engine)
        assert len(kv.rows()) > len(empty) + 30
        await engine.delete_shard(S)
        assert kv.rows() == empty


def rows_of(kv: SimKV, kinds: bytes) -> int:
    return sum(key[4] in kinds for key in kv.rows() if key[:1] != b"\xff")


@pytest.mark.parametrize(
    ("change", "batches", "index_rows"), [("truncate", 6, 12), ("trim", 4, 8), ("compact", 5, 10)]
)
async def test_rows_go_with_their_records(change: str, batches: int, index_rows: int) -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec(cleanup_policy="compact"))
        await fill_segments(engine, *[[record(b"v", b"k", b"t")] * 4] * 3)
        assert (rows_of(kv, b"B"), rows_of(kv, b"KG")) == (12, 24)
        if change == "truncate":
            await engine.truncate(S, Offset(6))
        elif change == "trim":
            await engine.trim(S, Offset(9))
        else:
            await engine.compact(S)
        assert (rows_of(kv, b"B"), rows_of(kv, b"KG")) == (batches, index_rows)


# -- failures --------------------------------------------------------------------------------------


async def test_a_failed_write_poisons_until_recovery() -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec(S, flush="sync"))
        await engine.create_shard(spec(T, flush="sync"))
        await engine.write(S, record(b"safe"))
        Writes(kv, 1, StorageError("the disk is gone"))
        with pytest.raises(ShardPoisoned, match="the disk is gone"):
            await engine.write(S, record(b"lost"))
        for call in (
            engine.write(S, record(b"later")),
            engine.append_batch(S, batch(b"later")),
            engine.append_replica(S, batch(b"later", base=1)),
            engine.truncate(S, Offset(0)),
            engine.trim(S, Offset(1)),
            engine.delete_by_offset(S, Offset(0)),
            engine.roll(S),
        ):
            with pytest.raises(ShardPoisoned):
                await call
        assert values(await read_all(engine)) == [b"safe"], "reading goes on"
        assert await engine.write(T, record(b"others go on")) == 0
        await engine.recover_shard(S)
        assert await engine.write(S, record(b"again")) == 1
        assert values(await read_all(engine)) == [b"safe", b"again"]


async def test_recovery_that_fails_leaves_the_poison() -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec())
        Writes(kv, 1, StorageError("gone"))
        with pytest.raises(ShardPoisoned):
            await engine.write(S, record(b"v"))
        kv.before_write = Broken()
        with pytest.raises(StorageError):
            await engine.recover_shard(S)
        with pytest.raises(ShardPoisoned):
            await engine.write(S, record(b"v"))


async def test_a_full_disk_is_waited_out() -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec(flush="sync"))
        await engine.write(S, record(b"a", b"k"))
        rows = kv.rows()
        Writes(kv, 1, DiskFull("no room"))
        with pytest.raises(DiskFull):
            await engine.write(S, record(b"b", b"k"))
        assert kv.rows() == rows
        assert engine.offsets(S) == (0, 1, 1)
        assert await engine.write(S, record(b"c", b"k")) == 1
        assert values(await engine.read_by_key(S, b"k", history=True)) == [b"c", b"a"]


async def test_a_sync_that_fails_in_the_background_poisons(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec(flush="interval", flush_ms=60_000))
        Writes(kv, 2, ShardPoisoned("fsync failed"))
        await engine.write(S, record(b"v"))
        let_pass(60)
        await until(lambda: "fsync failed" in caplog.text)
        with pytest.raises(ShardPoisoned):
            await engine.write(S, record(b"w"))


@pytest.mark.parametrize("damaged", [0, 1, 2])
async def test_damage_is_reported_and_the_rest_stays_readable(damaged: int) -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec())
        await write_all(engine, [record(b"%d" % n * 10, b"k%d" % n, b"t") for n in range(3)])
        key = next(key for key in kv.rows() if key[4:5] == b"B" and key[-1] == damaged)
        kv._rows.values[key] = kv._rows.values[key][:-1] + b"?"
        with pytest.raises(CorruptRecord) as caught:
            await engine.read_by_offset(S, Offset(damaged))
        assert caught.value.next_offset == damaged + 1
        with pytest.raises(CorruptRecord):
            await engine.read_by_key(S, b"k%d" % damaged)
        before = offsets(await engine.read_by_offset(S, Offset(0))) if damaged else []
        after = offsets(await engine.read_by_offset(S, caught.value.next_offset))
        assert [*before, *after] == [n for n in range(3) if n != damaged]


async def test_a_consumer_is_led_over_deleted_records_up_to_damage() -> None:
    kv = SimKV()
    async with engine_over(kv) as engine:
        await engine.create_shard(spec())
        await write_all(engine, [record(b"v") for _ in range(4)])
        for offset in (0, 1):
            await engine.delete_by_offset(S, Offset(offset))
        key = next(key for key in kv.rows() if key[4:5] == b"B" and key[-1] == 2)
        kv._rows.values[key] = kv._rows.values[key][:-1] + b"?"
        assert (await engine.fetch_batches(S, Offset(0), 1)).next_offset == 2
        with pytest.raises(CorruptRecord):
            await engine.fetch_batches(S, Offset(2), 1)


# -- the real store --------------------------------------------------------------------------------


async def test_messages_lie_in_their_own_column_family(tmp_path: Path) -> None:
    engine = EngineRocksDB(tmp_path)
    await engine.open()
    await engine.create_shard(spec())
    await engine.write(S, record(b"v"))
    await engine.close()
    assert COLUMN_FAMILY in Rdict.list_cf(str(tmp_path / ROCKSDB_FOLDER))


async def test_damage_on_the_disk_itself_is_no_silence(tmp_path: Path) -> None:
    """RocksDB finds a flipped bit by its own checksums; a scan must not end there as if all were
    read."""
    engine = EngineRocksDB(tmp_path)
    await engine.open()
    await engine.create_shard(spec(index_key=False, index_tag=False))
    await engine.batch_write(S, [record(Random(0).randbytes(3000)) for _ in range(300)])
    engine._registry._storage._kv._db.flush()  # type: ignore[attr-defined]
    engine._registry._storage._kv._cf.flush()  # type: ignore[attr-defined]
    await engine.close()
    tables = sorted((tmp_path / ROCKSDB_FOLDER).glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(tables[-1].read_bytes())
    data[len(data) // 2] ^= 0xFF
    tables[-1].write_bytes(data)
    engine = EngineRocksDB(tmp_path)
    await engine.open()
    with pytest.raises((StorageError, CorruptRecord)):
        await read_all(engine)
    await engine.close()


STUCK = """
import asyncio, resource, signal, sys
from pathlib import Path
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.model.errors import ShardPoisoned
from tests.engine.support import S, T, read_all, record, spec, values

async def main() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    engine = EngineRocksDB(Path(sys.argv[1]))
    await engine.open()
    for shard in (S, T):
        await engine.create_shard(spec(shard, flush="sync"))
        await engine.write(shard, record(b"before", b"k"))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    failed = 0
    for _ in range(5):
        try:
            await engine.write(S, record(b"x" * 3000))
        except ShardPoisoned:
            failed += 1
    assert failed >= 4, failed
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await engine.recover_shard(S)
    kept = await read_all(engine)
    assert await engine.write(S, record(b"after", b"k")) == len(kept)
    assert values(await engine.read_by_key(S, b"k", history=True)) == [b"after", b"before"]
    assert await engine.write(T, record(b"after", b"k")) == 1, "its neighbours as well"
    await engine.close()
    print("recovered")

asyncio.run(main())
"""


async def test_a_store_that_refuses_all_writes_is_opened_anew(tmp_path: Path) -> None:
    """What RocksDB does after an I/O error, here made by a limit on the size of files."""
    found = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        STUCK,
        str(tmp_path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    output, _ = await asyncio.wait_for(found.communicate(), 60)
    assert output.decode().strip().endswith("recovered"), output.decode()
