"""What is deleted stays deleted in tables that showed it early, also when compaction has taken the
record out of the log and only the mark is left to say so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.model.types import Offset
from stratamq.tiering.stores.options import StoreOptions
from tests.tiering.mover.rig import SHARD, Rows
from tests.tiering.tables.rig import TableRig

ROOMY = {"segment.bytes": 1 << 20, "flush": "os"}
END = Offset(1000)


@pytest.fixture(params=["segment", "rocksdb", "memory"])
async def rig(
    request: pytest.FixtureRequest, tmp_path: Path, directory_options: StoreOptions
) -> AsyncIterator[TableRig]:
    async with TableRig(tmp_path, directory_options, kind=request.param) as made:
        yield made


async def marks(rig: TableRig) -> list[Offset]:
    return await rig.engine.deleted(SHARD, Offset(0), END)


async def held(rig: TableRig) -> Rows:
    found: Rows = {}
    for file in rig.files():
        found |= await rig._rows_of(file)
    return found


async def shown(rig: TableRig) -> Rows:
    """What a reader of the table sees who heeds the marks."""
    deleted = await marks(rig)
    return {at: row for at, row in (await held(rig)).items() if at not in deleted}


async def test_a_mark_outlives_compaction_where_a_table_shows_the_record(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    rows = await rig.fill(20)
    await rig.early.flush(topic, SHARD)
    await rig.engine.roll(SHARD)
    await rig.engine.delete_by_offset(SHARD, Offset(3))
    assert await rig.engine.compact(SHARD) > 0
    del rows[3]
    assert await shown(rig) == rows
    await rig.early.flush(topic, SHARD)
    assert 3 not in await held(rig)
    await rig.engine.delete_by_offset(SHARD, Offset(4))
    await rig.early.flush(topic, SHARD)
    assert 4 not in await held(rig)


async def test_it_is_taken_out_once(rig: TableRig, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await rig.create(ROOMY)
    await rig.fill(20)
    await rig.early.flush(topic, SHARD)
    await rig.engine.roll(SHARD)
    await rig.engine.delete_by_offset(SHARD, Offset(3))
    assert await rig.engine.compact(SHARD) > 0
    store = type(rig.engine._shard(SHARD).store)  # type: ignore[attr-defined]
    with monkeypatch.context() as patched:
        patched.setattr(store, "prepare_rewrite", None)  # it would be called
        assert await rig.engine.compact(SHARD) == 0
    await rig.engine.delete_by_offset(SHARD, Offset(4))
    assert await rig.engine.compact(SHARD) > 0
    assert await marks(rig) == [3, 4]


async def test_where_no_table_shows_it_the_mark_goes_with_the_record(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    await rig.fill(10)
    await rig.early.flush(topic, SHARD)
    await rig.fill(10, seed=1)
    await rig.engine.roll(SHARD)
    for offset in (3, 15):
        await rig.engine.delete_by_offset(SHARD, Offset(offset))
    assert await rig.engine.compact(SHARD) > 0
    assert await marks(rig) == [3]


async def test_a_record_deleted_and_compacted_while_its_file_is_on_its_way(rig: TableRig) -> None:
    topic = await rig.create(ROOMY)
    rows = await rig.fill(20)

    async def delete_and_compact() -> None:
        if await rig.engine.delete_by_offset(SHARD, Offset(5)):
            await rig.engine.roll(SHARD)
            assert await rig.engine.compact(SHARD) > 0

    rig.before_submit = delete_and_compact
    rig.early.around.meta._before = delete_and_compact  # type: ignore[attr-defined]
    await rig.early.flush(topic, SHARD)
    del rows[5]
    assert await shown(rig) == rows


@pytest.mark.parametrize("kind", ["segment", "rocksdb"])
async def test_what_tables_show_is_known_after_a_restart(
    kind: str, tmp_path: Path, directory_options: StoreOptions
) -> None:
    async with TableRig(tmp_path, directory_options, kind=kind) as rig:
        topic = await rig.create(ROOMY)
        rows = await rig.fill(20)
        await rig.early.flush(topic, SHARD)
        await rig.engine.roll(SHARD)
        await rig.engine.delete_by_offset(SHARD, Offset(3))
        await rig.engine.compact(SHARD)
    async with TableRig(tmp_path, directory_options, kind=kind) as rig:
        await rig.engine.delete_by_offset(SHARD, Offset(4))
        assert await rig.engine.compact(SHARD) > 0
        del rows[3], rows[4]
        assert await shown(rig) == rows


async def test_a_trim_into_a_file_makes_no_later_deletion_unseen(rig: TableRig) -> None:
    """Marks below the start are forgotten, so there are as many as before."""
    topic = await rig.create(ROOMY)
    await rig.fill(20)
    await rig.engine.delete_by_offset(SHARD, Offset(2))
    await rig.early.flush(topic, SHARD)
    await rig.engine.trim(SHARD, Offset(6))
    await rig.engine.delete_by_offset(SHARD, Offset(9))
    await rig.early.flush(topic, SHARD)
    (file,) = rig.files()
    assert sorted(await rig._rows_of(file)) == [6, 7, 8, *range(10, 20)]
