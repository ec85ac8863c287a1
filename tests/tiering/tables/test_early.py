"""Early files, made of a real engine's log and known to a real Meta Service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.meta.tier.files import TierFile
from stratamq.model.errors import StorageError, StoreUnavailable
from stratamq.model.record import Record
from stratamq.model.topic import Topic
from stratamq.model.transaction import TransactionMarker
from stratamq.model.types import Offset, TimestampMs
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.tables.early import Visible
from stratamq.wire.kafka.records import encode_batch
from tests.tiering.mover.rig import SHARD, TIERED, Rows
from tests.tiering.tables.rig import TableRig

ROOMY = {"segment.bytes": 1 << 20, "flush": "os"}


@pytest.fixture
async def rig(tmp_path: Path, directory_options: StoreOptions) -> AsyncIterator[TableRig]:
    async with TableRig(tmp_path, directory_options, merge_files=3) as made:
        yield made


async def rows_of(rig: TableRig, files: tuple[TierFile, ...]) -> Rows:
    found: Rows = {}
    for file in files:
        rows = await rig._rows_of(file)
        assert not found.keys() & rows.keys(), "a record is there twice"
        assert file.rows == len(rows)
        found |= rows
    return found


@pytest.mark.parametrize("kind", ["segment", "rocksdb", "memory"])
async def test_a_flush_shows_what_is_there(
    kind: str, tmp_path: Path, directory_options: StoreOptions
) -> None:
    async with TableRig(tmp_path, directory_options, kind=kind) as rig:
        topic = await rig.create(TIERED)
        rows = await rig.fill(40)
        segments = rig.engine.segments(SHARD)
        assert len(segments) > 2
        assert await rig.early.flush(topic, SHARD) == Visible(len(segments), 40)
        assert await rows_of(rig, rig.files()) == rows
        assert not any(file.final for file in rig.files())
        assert await rig.early.flush(topic, SHARD) == Visible()
        rows |= await rig.fill(7, seed=1)
        done = await rig.early.flush(topic, SHARD)
        assert done.rows == 7
        assert await rows_of(rig, rig.files()) == rows


async def test_flushed_again_and_again_files_stay_few(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    rows: Rows = {}
    for number in range(25):
        rows |= await rig.fill(3, seed=number)
        assert (await rig.early.flush(topic, SHARD)).rows == 3
        assert len(rig.files()) < 7
    assert await rows_of(rig, rig.files()) == rows
    await rig.engine.roll(SHARD)
    await rig.early.flush(topic, SHARD)
    (only,) = rig.files()
    assert (only.rows, only.final) == (75, False)
    assert await rows_of(rig, rig.files()) == rows


async def test_the_final_file_takes_the_place_of_all_of_its_segment(rig: TableRig) -> None:
    topic = await rig.create({**TIERED, "segment.bytes": 1 << 20})
    rows: Rows = {}
    for number in range(2):
        rows |= await rig.fill(5, seed=number)
        await rig.early.flush(topic, SHARD)
    assert len(rig.files()) == 2
    await rig.engine.roll(SHARD)
    rows |= await rig.fill(4, seed=9)
    await rig.early.flush(topic, SHARD)
    await rig.mover.run_once()
    final, early = rig.files()
    assert (final.final, final.rows, early.final, early.rows) == (True, 10, False, 4)
    assert await rows_of(rig, rig.files()) == rows


async def test_what_is_not_decided_is_not_shown(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    rows = await rig.fill(5)
    batches = {
        name: encode_batch(
            [Record(key=name, value=name)],
            now_ms=1,
            producer_id=number,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        for number, name in ((7, b"kept"), (8, b"gone"))
    }
    for batch in batches.values():
        await rig.engine.append_batch(SHARD, batch)
    await rig.fill(2)
    assert (await rig.early.flush(topic, SHARD)).rows == 5
    assert await rows_of(rig, rig.files()) == rows
    await rig.engine.write_marker(SHARD, marker(7, committed=True))
    assert await rig.early.flush(topic, SHARD) == Visible(1, 1)
    await rig.engine.write_marker(SHARD, marker(8, committed=False))
    assert (await rig.early.flush(topic, SHARD)).rows == 3
    assert sorted(await rows_of(rig, rig.files())) == [*range(9)]
    await rig.updater.write(topic)
    assert (await rig.table(topic)).rows == 9
    assert (await rig.table(topic, ("aborted = false", "not aborted"))).rows == 8
    assert await rig.early.flush(topic, SHARD) == Visible(), "marks are no rows"


def marker(producer_id: int, *, committed: bool) -> TransactionMarker:
    return TransactionMarker(
        producer_id=producer_id, producer_epoch=0, commit=committed, coordinator_epoch=0
    )


async def test_deleted_records_are_not_shown(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    rows = await rig.fill(10)
    await rig.engine.delete_by_offset(SHARD, Offset(3))
    await rig.engine.trim(SHARD, Offset(2))
    for gone in (0, 1, 3):
        del rows[gone]
    assert (await rig.early.flush(topic, SHARD)).rows == 7
    assert await rows_of(rig, rig.files()) == rows


async def test_what_is_deleted_later_goes_with_the_next_flush(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    rows = await rig.fill(10)
    await rig.early.flush(topic, SHARD)
    await rig.engine.delete_by_offset(SHARD, Offset(3))
    assert await rig.early.flush(topic, SHARD) == Visible()
    del rows[3]
    assert await rows_of(rig, rig.files()) == rows
    (only,) = rig.files()
    await rig.early.flush(topic, SHARD)
    assert rig.files() == (only,), "once"
    for offset in rows:
        await rig.engine.delete_by_offset(SHARD, Offset(offset))
    await rig.early.flush(topic, SHARD)
    assert not rig.files()


async def test_what_is_trimmed_goes_with_the_next_merge(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    rows: Rows = {}
    for number in range(2):
        rows |= await rig.fill(10, seed=number)
        await rig.early.flush(topic, SHARD)
    await rig.engine.trim(SHARD, Offset(5))
    rows |= await rig.fill(10, seed=2)
    await rig.early.flush(topic, SHARD)
    (only,) = rig.files()
    assert (only.base_offset, only.end_offset) == (0, 30)
    expected = {offset: row for offset, row in rows.items() if offset >= 5}
    assert await rows_of(rig, rig.files()) == expected


async def test_a_stretch_without_rows_is_looked_at_once(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    await rig.fill(5)
    for number in range(5):
        await rig.engine.delete_by_offset(SHARD, Offset(number))
    assert rig.early.is_behind(SHARD)
    assert await rig.early.flush(topic, SHARD) == Visible()
    assert not rig.early.is_behind(SHARD)
    assert not rig.files()
    await rig.fill(1)
    assert await rig.early.flush(topic, SHARD) == Visible(1, 1)


async def test_files_tell_their_columns_and_what_did_not_fit(rig: TableRig) -> None:
    fields = [{"name": "id", "type": "long"}]
    schema = json.dumps({"type": "record", "name": "V", "fields": fields})
    topic = await rig.create({**ROOMY, "lake.value.format": "json", "lake.value.schema": schema})
    values = (b'{"id":1}', b"{", b'{"id":"x"}', None)
    await rig.engine.batch_write(
        SHARD, [Record(key=b"k", value=value, timestamp=TimestampMs(5)) for value in values]
    )
    await rig.updater.flush(topic)
    (file,) = rig.files()
    assert (file.unparsed, file.misfits, file.columns) == (1, 1, '[["id","long"]]')
    manifest = await rig.manifest(topic)
    assert (manifest.unparsed, manifest.misfits, manifest.rows) == (1, 1, 4)


# -- others, and failures --------------------------------------------------------------------------


async def test_when_the_mover_was_faster_nothing_is_doubled(rig: TableRig) -> None:
    topic = await rig.create({**TIERED, "segment.bytes": 1 << 20})
    rows = await rig.fill(10)
    await rig.engine.roll(SHARD)
    upload, overtaken = rig.mover.shipper.upload, []

    async def slow(*args: object, **more: object) -> object:
        if not overtaken:
            overtaken.append(1)
            await rig.mover.run_once()
        return await upload(*args, **more)  # type: ignore[arg-type]

    rig.mover.shipper.upload = slow  # type: ignore[assignment]
    await rig.early.flush(topic, SHARD)
    (only,) = rig.files()
    assert only.final
    assert await rows_of(rig, rig.files()) == rows
    objects = {key for key in await rig.objects() if key.endswith(".parquet")}
    assert objects == {one.key for one in only.objects}, "no object is left that nothing names"


async def test_a_store_that_fails_leaves_everything_as_it_was(rig: TableRig) -> None:
    topic: Topic = await rig.create(ROOMY)
    rows = await rig.fill(10)
    put_file = rig.store.put_file

    async def down(*args: object, **more: object) -> None:
        raise StoreUnavailable("down")

    rig.store.put_file = down  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable):
        await rig.early.flush(topic, SHARD)
    assert not rig.files()
    assert not list(rig.early.work_folder.iterdir())
    rig.store.put_file = put_file  # type: ignore[method-assign]
    assert await rig.early.flush(topic, SHARD) == Visible(1, 10)
    assert await rows_of(rig, rig.files()) == rows


async def test_a_disk_that_refuses_is_an_error_of_ours(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    await rig.fill(10)
    rig.early.work_folder.write_bytes(b"a file where a folder should be")
    with pytest.raises(StorageError, match="no early file"):
        await rig.early.flush(topic, SHARD)
    rig.early.work_folder.unlink()
    assert await rig.early.flush(topic, SHARD) == Visible(1, 10)


async def test_a_merge_leaves_the_objects_of_the_merged_to_the_cleaner(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    for number in range(3):
        await rig.fill(3, seed=number)
        await rig.early.flush(topic, SHARD)
    (only,) = rig.files()
    assert len(rig.cache.retired()) == 3
    await rig.mover.run_once()
    assert {key for key in await rig.objects() if "/data/" in key} == {only.objects[0].key}
