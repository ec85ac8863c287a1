"""Segments move: everything stays, where it should be, whatever else happens meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from stratamq.meta.tier.files import CommitFiles, TierFile, TierObject
from stratamq.model.clock import ManualClock
from stratamq.model.errors import StoreUnavailable
from stratamq.model.record import Record
from stratamq.model.shard import shard_name
from stratamq.model.transaction import TransactionMarker
from stratamq.model.types import Offset, ShardName, TimestampMs, TopicId
from stratamq.tiering import keys
from stratamq.tiering.converter.requests import Converted
from stratamq.tiering.mover.progress import Step
from stratamq.tiering.stores.options import StoreOptions
from stratamq.wire.kafka.records import encode_batch
from tests.tiering.mover.rig import OWNER, QUICK, SHARD, TIERED, TOPIC_ID, Rig
from tests.waiting import every, let_run, until


@pytest.fixture
def rig(tmp_path: Path, directory_options: StoreOptions) -> Rig:
    return Rig(tmp_path / "node", directory_options)


@pytest.mark.parametrize(
    ("kind", "tier_format"),
    [("segment", "parquet"), ("segment", "both"), ("rocksdb", "both"), ("memory", "log")],
)
async def test_everything_moves_and_stays(rig: Rig, kind: str, tier_format: str) -> None:
    rig.kind = kind
    async with rig:
        await rig.create({**TIERED, "tier.format": tier_format})
        rows = await rig.fill(100)
        sealed = [one for one in rig.engine.segments(SHARD) if not one.active]
        done = await rig.mover.run_once()
        assert done.segments == len(sealed) > 3
        assert done.freed_bytes == sum(one.size_bytes for one in sealed)
        files = rig.files()
        assert [file.base_offset for file in files] == [one.base_offset for one in sealed]
        assert [file.end_offset for file in files] == [one.end_offset for one in sealed]
        assert all(file.final and file.rows for file in files)
        has_parquet, has_log = tier_format != "log", tier_format != "parquet"
        assert all((file.parquet is not None) == has_parquet for file in files)
        assert all((file.log is not None) == has_log for file in files)
        assert all((file.index is not None) == (has_log and kind == "segment") for file in files)
        assert await rig.all_rows() == rows
        assert rig.engine.offsets(SHARD).start == 0
        await rig.settled()


async def test_raw_segments_are_byte_identical(rig: Rig) -> None:
    async with rig:
        await rig.create({**TIERED, "tier.format": "log"})
        await rig.fill(60)
        before = {}
        for path in sorted((rig.folder / "data").rglob("*.log")):
            stem = path.with_suffix("")
            before[int(path.stem)] = [
                stem.with_suffix(suffix).read_bytes() if stem.with_suffix(suffix).exists() else None
                for suffix in (".log", ".index", ".timeindex")
            ]
        await rig.settled()
        for file in every(rig.files()):
            assert file.log
            assert file.index
            assert file.timeindex
            found = [await rig.content(one) for one in (file.log, file.index, file.timeindex)]
            assert found == before[file.base_offset]


async def test_only_what_is_over_the_limits(rig: Rig) -> None:
    clock = rig.clock = ManualClock()
    async with rig:
        await rig.create({"segment.bytes": 4096, "local.retention.ms": 1000, "flush": "os"})
        rows = await rig.fill(40)
        assert (await rig.mover.run_once()).segments == 0
        clock.advance(900)
        rows |= await rig.fill(40, seed=1)
        clock.advance(500)
        moved = (await rig.mover.run_once()).segments
        assert 0 < moved < len(rig.engine.segments(SHARD)) + moved - 1
        assert await rig.all_rows() == rows
        assert (await rig.mover.run_once()).segments == 0


async def test_topics_that_do_not_ask_for_it_are_left_alone(rig: Rig) -> None:
    async with rig:
        await rig.create({"segment.bytes": 4096, "flush": "os"})
        await rig.fill(60)
        assert (await rig.mover.run_once())[1:] == (0, 0, 0, 0, 0)
        assert await rig.objects() == set()
        assert rig.mover.converters.processes == []


async def test_what_is_deleted_is_not_in_the_files(rig: Rig) -> None:
    """Neither what compaction takes out, nor what lies before the start."""
    async with rig:
        await rig.create(TIERED)
        rows = await rig.fill(60)
        await rig.engine.delete_by_offset(SHARD, Offset(3))
        await rig.engine.delete_by_key(SHARD, b"k5")
        await rig.engine.trim(SHARD, Offset(2))
        await rig.settled()
        gone = {0, 1, 3, *(at for at, (key, _) in rows.items() if key == b"k5")}
        moved = rig.engine.local_start(SHARD)
        assert (await rig.cold_rows()).keys() == {at for at in rows.keys() - gone if at < moved}


async def test_nor_what_compaction_has_to_leave(rig: Rig) -> None:
    """A segment that was exported once is not compacted any more."""
    failures = [StoreUnavailable("just once")]

    def fail(shard: ShardName, step: Step) -> None:
        if step is Step.UPLOAD and failures:
            raise failures.pop()

    rig.on_step = fail
    async with rig:
        await rig.create(TIERED)
        await rig.fill(30)
        assert (await rig.mover.run_once()).failures == 1
        await rig.engine.delete_by_offset(SHARD, Offset(3))
        await let_run(0.005)
        await rig.settled()
        assert 3 in await rig.engine.deleted(SHARD, Offset(0), Offset(30))
        cold = await rig.cold_rows()
        assert 3 not in cold
        assert {2, 4} <= cold.keys()


async def test_a_delete_that_compaction_could_forget(rig: Rig) -> None:
    """Deleted after the export, compacted before the commit: the record must not come back."""
    tasks: list[asyncio.Task[None]] = []

    async def delete_and_compact() -> None:
        await rig.engine.delete_by_offset(SHARD, Offset(3))
        await rig.engine.compact(SHARD)

    def overtake(shard: ShardName, step: Step) -> None:
        if step is Step.UPLOAD and not tasks:
            tasks.append(asyncio.create_task(delete_and_compact()))

    rig.on_step = overtake
    async with rig:
        await rig.create(TIERED)
        await rig.fill(30)
        await rig.settled()
        await asyncio.gather(*tasks)
        marked = set(await rig.engine.deleted(SHARD, Offset(0), Offset(30)))
        assert 3 in marked or 3 not in await rig.cold_rows()


async def test_a_compacted_topic(rig: Rig) -> None:
    async with rig:
        await rig.create({**TIERED, "cleanup.policy": "compact"})
        rows = await rig.fill(150)
        await rig.settled()
        found = await rig.all_rows()
        assert len(found) < len(rows)
        newest = {key: value for _, (key, value) in sorted(rows.items())}
        assert {key: value for _, (key, value) in sorted(found.items())} == newest
        assert found.items() <= rows.items()


async def test_transactions(rig: Rig) -> None:
    """What is not decided stays; what was aborted is marked."""

    async def append(producer: int, sequence: int, count: int) -> None:
        some = [Record(value=b"t" * 300)] * count
        await rig.engine.append_batch(
            SHARD,
            encode_batch(
                some,
                now_ms=1,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            ),
        )

    async def end(producer: int, *, commit: bool) -> None:
        marker = TransactionMarker(
            producer_id=producer, producer_epoch=0, commit=commit, coordinator_epoch=0
        )
        await rig.engine.write_marker(SHARD, marker)

    async with rig:
        await rig.create(TIERED)
        await append(1, 0, 8)
        await append(2, 0, 8)
        await end(1, commit=False)
        await rig.fill(30)
        await rig.mover.run_once()
        assert rig.engine.local_start(SHARD) <= 8, "of the second transaction nothing has moved"
        await end(2, commit=True)
        await rig.fill(30)
        await rig.settled()
        cold = await rig.cold_rows()
        assert cold.keys() >= set(range(16))
        first = rig.files()[0]
        assert first.parquet
        path = rig.folder / "first"
        path.write_bytes(await rig.content(first.parquet))
        aborted = pq.read_table(path, columns=["offset", "aborted"]).to_pydict()
        marks = dict(zip(aborted["offset"], aborted["aborted"], strict=True))
        assert [marks[at] for at in range(first.end_offset) if at in marks] == [
            at < 8 for at in range(first.end_offset) if at in marks
        ]


SCHEMA = json.dumps(
    {"type": "record", "name": "v", "fields": [{"name": "id", "type": ["null", "long"]}]}
)


async def test_typed_columns(rig: Rig) -> None:
    async with rig:
        config = {**TIERED, "lake.value.format": "json", "lake.value.schema": SCHEMA}
        await rig.create(config)
        for number in range(60):
            value = b'{"id": %d, "rest": "%s"}' % (number, b"x" * 300)
            await rig.engine.write(SHARD, Record(value=value if number else b"rubbish"))
        await rig.settled()
        files = rig.files()
        assert {file.columns for file in files} == {'[["id","long"]]'}
        assert [file.unparsed for file in files] == [1] + [0] * (len(files) - 1)


async def test_retention_takes_files_too(rig: Rig) -> None:
    rig.limits = replace(QUICK, orphan_grace_ms=60_000)
    clock = rig.clock = ManualClock()
    async with rig:
        await rig.create(TIERED)
        await rig.fill(60)
        await rig.mover.run_once()
        files = rig.files()
        start = files[2].base_offset
        await rig.engine.trim(SHARD, Offset(start + 1))
        assert (await rig.mover.run_once()).removed == 0
        assert rig.files() == files[2:]
        gone = {one.key for file in files[:2] for one in file.objects}
        assert gone <= await rig.objects(), "somebody may still be reading"
        assert set(rig.meta.state.retired) == gone
        clock.advance(59_000)
        assert (await rig.mover.run_once()).removed == 0
        clock.advance(2_000)
        assert (await rig.mover.run_once()).removed == 2
        assert gone.isdisjoint(await rig.objects())
        assert not rig.meta.state.retired


async def test_early_files_give_way_to_the_final_one(rig: Rig) -> None:
    """Also those that come at the last moment."""
    bases = [Offset(0), Offset(3), Offset(5)]

    async def flush() -> None:
        if not bases:
            return
        base, end = bases.pop(0), bases[0] if bases else Offset(7)
        key = keys.data_key(f"orders.{TOPIC_ID}", 0, base, end, keys.new_token(OWNER))
        early = TierFile(
            shard=SHARD, base_offset=base, end_offset=end, final=False, log=TierObject(key, 1, 1)
        )
        await rig.meta.submit(CommitFiles(shard=SHARD, add=(early,), now_ms=TimestampMs(1)))

    rig.before_submit = flush
    async with rig:
        await rig.create(TIERED)
        rows = await rig.fill(30)
        await flush()
        await rig.settled()
        assert not bases
        assert all(file.final for file in rig.files())
        assert await rig.all_rows() == rows


async def test_a_topic_that_is_deleted_meanwhile(rig: Rig) -> None:
    tasks: list[asyncio.Task[None]] = []

    def delete(shard: ShardName, step: Step) -> None:
        if step is Step.VERIFY and len(rig.files()) == 2 and not tasks:
            tasks.append(asyncio.create_task(rig.delete(rig.topics[0])))

    rig.on_step = delete
    async with rig:
        await rig.create(TIERED)
        await rig.fill(60)
        done = await rig.mover.run_once()
        assert tasks
        await tasks[0]
        assert done.failures == 0
        await rig.mover.run_once()
        assert await rig.objects() == set()
        assert not rig.meta.state.files_of(SHARD)
        assert not rig.meta.state.retired
        assert rig.mover.status().underway == ()


async def test_a_shard_that_is_trimmed_meanwhile(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of what is gone would be of no use: it is not even named."""
    rig.limits = replace(QUICK, orphan_grace_ms=3_600_000)
    async with rig:
        await rig.create(TIERED)
        rows = await rig.fill(60)
        convert = rig.mover.converters.convert

        async def trim_and_convert(*given: Any) -> Converted:
            if len(rig.files()) == 2:
                await rig.engine.trim(SHARD, Offset(35))
            return await convert(*given)

        monkeypatch.setattr(rig.mover.converters, "convert", trim_and_convert)
        await rig.mover.run_once()
        assert rig.engine.offsets(SHARD).start == 35
        assert await rig.all_rows() == {at: row for at, row in rows.items() if at >= 35}
        assert all(file.end_offset > 35 for file in rig.files())
        assert len(rig.meta.state.retired) == 2
        named = {one.key for file in rig.files() for one in file.objects}
        assert await rig.objects() == named | set(rig.meta.state.retired)


async def test_many_shards_share_the_workers(rig: Rig) -> None:
    rig.limits = replace(QUICK, workers=2)
    most = 0

    def count(shard: ShardName, step: Step) -> None:
        nonlocal most
        most = max(most, len(rig.mover.status().underway))

    rig.on_step = count
    async with rig:
        await rig.create(TIERED, partitions=3)
        shards = [shard_name(TOPIC_ID, partition) for partition in range(3)]
        rows = {shard: await rig.fill(80, shard=shard, seed=at) for at, shard in enumerate(shards)}
        done = await rig.mover.run_once()
        assert done.shards == 3
        assert most == 2
        for shard in shards:
            assert await rig.all_rows(shard) == rows[shard]
            assert len(rig.engine.segments(shard)) == 1


async def test_a_backlog_leaves_others_their_turn(rig: Rig) -> None:
    order: list[ShardName] = []
    rig.on_step = lambda shard, step: order.append(shard) if step is Step.COMMIT else None
    async with rig:
        await rig.create(TIERED)
        other = TopicId("f" * 32)
        await rig.create(TIERED, name="quiet", topic_id=other)
        await rig.fill(150)
        await rig.fill(20, shard=shard_name(other, 0))
        await rig.mover.run_once()
        assert order.index(shard_name(other, 0)) < 5 < order.count(SHARD)


async def test_progress_can_be_seen(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    def look(shard: ShardName, step: Step) -> None:
        seen.append(rig.mover.status())

    rig.on_step = look
    caplog.set_level(logging.INFO)
    async with rig:
        await rig.create(TIERED)
        await rig.fill(40)
        done = await rig.mover.run_once()
        underway = [status.underway[0] for status in seen if status.underway]
        assert {one.step for one in underway} == set(Step) - {Step.OFFLOAD}
        assert {one.topic for one in underway} == {"orders"}
        assert all(one.total_bytes for one in underway if one.step in (Step.CONVERT, Step.UPLOAD))
        assert max(status.waiting_segments for status in seen) == done.segments
        status = rig.mover.status()
        assert (status.underway, status.waiting_segments, status.troubled) == ((), 0, 0)
        assert status.totals.segments_moved == done.segments
        assert status.totals.last_moved_ms >= 0
        assert status.totals.log_bytes_moved == done.log_bytes == done.freed_bytes
        assert status.totals.object_bytes_stored == sum(file.size_bytes for file in rig.files())
        lines = [one for one in caplog.records if "tiering" in one.name]
        assert len(lines) == 1


async def test_it_runs_by_itself_and_stops_promptly(rig: Rig) -> None:
    rig.limits = replace(QUICK, bytes_per_second=2000)
    async with rig:
        await rig.create(TIERED)
        rows = await rig.fill(60)
        rig.mover.start()
        await until(rig.files)
        async with asyncio.timeout(3):
            await rig.mover.stop()
        assert await rig.all_rows() == rows
        rig.limits = QUICK
        rig.mover = rig.new_mover()
        await rig.mover.open()
        await rig.settled()
        assert await rig.all_rows() == rows
