"""Records that are deleted after they were moved go from the files too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.engine.contract import ShardSpec
from stratamq.meta.tier.files import TierFile, TierObject
from stratamq.model.errors import StoreUnavailable
from stratamq.model.record import Record
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName
from stratamq.tiering.mover.progress import Step
from stratamq.tiering.mover.rewrite import Gone, outdated
from stratamq.tiering.stores.options import StoreOptions
from stratamq.wire.kafka.records import Compression, decode_batch, encode_batch, iter_batches
from tests.engine.support import offsets
from tests.tiering.mover.rig import QUICK, SHARD, TIERED, Rig
from tests.tiering.mover.test_policy import tier_file

FAR = Offset(1 << 62)
NOTHING = TierObject("", 0, 0)


@pytest.fixture
async def rig(tmp_path: Path, directory_options: StoreOptions) -> AsyncIterator[Rig]:
    limits = replace(QUICK, rewrite_ms=0)
    async with Rig(tmp_path / "node", directory_options, limits=limits) as opened:
        await opened.create(TIERED)
        yield opened


def batches(rig: Rig) -> dict[int, bytes]:
    """What history gives back, by base offset."""
    history, found, offset = rig.histories[SHARD], {}, Offset(0)
    while data := history.read(offset, 1 << 20, FAR):
        for header, batch in iter_batches(data):
            found[int(header.base_offset)] = bytes(batch)
            offset = header.next_offset
    return found


async def test_what_is_deleted_later_goes_too(rig: Rig) -> None:
    rows = await rig.fill(60)
    await rig.settled()
    files = rig.files()
    await rig.engine.delete_by_offset(SHARD, Offset(3))
    await rig.engine.delete_by_key(SHARD, b"k5")
    gone = {3, *(at for at, (key, _) in rows.items() if key == b"k5")}
    hit = [file for file in files if any(file.base_offset <= at < file.end_offset for at in gone)]
    assert 0 < len(hit) < len(files)
    assert gone & (await rig.cold_rows()).keys()
    await rig.settled()
    assert not gone & (await rig.cold_rows()).keys()
    assert await rig.all_rows() == {at: row for at, row in rows.items() if at not in gone}
    assert [file in rig.files() for file in files] == [file not in hit for file in files]
    assert rig.mover.status().totals.files_rewritten == len(hit)
    await rig.settled()
    assert rig.mover.status().totals.files_rewritten == len(hit), "once is enough"
    await rig.engine.delete_by_offset(SHARD, Offset(4))
    await rig.settled()
    assert 4 not in await rig.cold_rows()


async def test_consumers_reach_the_end_when_all_of_it_is_deleted(rig: Rig) -> None:
    """The whole log is on object storage, and its newest records are not in the files any more."""
    await rig.fill(60)
    await rig.engine.roll(SHARD)
    await rig.settled()
    assert rig.engine.local_start(SHARD) == 60
    for gone in (range(40, 60), range(40)):
        for offset in gone:
            await rig.engine.delete_by_offset(SHARD, Offset(offset))
        before = await consumed(rig)
        assert max(before, default=-1) < gone[0]
        await rig.settled()
        assert not set(gone) & (await rig.cold_rows()).keys()
        assert await consumed(rig) == before


async def test_files_that_were_emptied_go_in_their_time(rig: Rig) -> None:
    """What is left of them has no timestamp. They are as old as the records that were in them."""
    await rig.fill(60)
    await rig.settled()
    first, second, *_ = rig.files()
    for offset in range(first.end_offset):
        await rig.engine.delete_by_offset(SHARD, Offset(offset))
    await rig.settled()
    assert rig.files()[0].max_timestamp == -1
    assert rig.files()[0].largest_timestamp == first.max_timestamp
    cold = rig.engine.cold_segments(SHARD)
    assert [one.largest_timestamp for one in cold[:2]] == [
        first.max_timestamp,
        second.max_timestamp,
    ]
    kept = TopicConfig.of({**TIERED, "retention.ms": 3_600_000})
    await rig.engine.create_shard(ShardSpec(name=SHARD, config=kept))
    assert await rig.engine.apply_retention(SHARD) == 0
    over = TopicConfig.of({**TIERED, "retention.ms": 0})
    await rig.engine.create_shard(ShardSpec(name=SHARD, config=over))
    assert await rig.engine.apply_retention(SHARD) >= 2


async def consumed(rig: Rig) -> list[int]:
    """As a client does it: each fetch goes on where the last batch of the answer before ended."""
    seen: list[int] = []
    position = Offset(0)
    while position < rig.engine.offsets(SHARD).high_watermark:
        data = (await rig.engine.fetch_batches(SHARD, position, 2000)).data
        assert data, f"it stays at {position}"
        for header, batch in iter_batches(data):
            seen += [] if header.is_control else offsets(decode_batch(header, batch))
            position = header.next_offset
    return seen


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD, Compression.GZIP])
async def test_all_else_stays_as_it_was(rig: Rig, codec: Compression) -> None:
    for number in range(40):
        some = [Record(key=b"k", value=b"%d" % (number + at) * 90) for at in range(3)]
        await rig.engine.append_batch(SHARD, encode_batch(some, now_ms=5, compression=codec))
    await rig.engine.roll(SHARD)
    await rig.settled()
    before = batches(rig)
    await rig.engine.delete_by_offset(SHARD, Offset(4))
    await rig.settled()
    assert rig.mover.status().totals.files_rewritten == 1
    after = batches(rig)
    assert after.pop(3) != before.pop(3)
    assert after == before


@pytest.mark.parametrize("at", [Step.EXPORT, Step.UPLOAD, Step.VERIFY])
async def test_what_fails_leaves_the_old_file(rig: Rig, at: Step) -> None:
    rows = await rig.fill(30)
    await rig.settled()
    files = rig.files()
    await rig.engine.delete_by_offset(SHARD, Offset(3))
    failures = [StoreUnavailable("just once")]

    def fail(shard: ShardName, step: Step) -> None:
        if step is at and failures:
            raise failures.pop()

    rig.on_step = fail
    await anew(rig, orphan_grace_ms=3_600_000)
    assert (await rig.mover.run_once()).failures == 1
    assert rig.files() == files
    assert await rig.objects() == {one.key for file in files for one in file.objects}
    await anew(rig, orphan_grace_ms=0)
    await rig.settled()
    del rows[3]
    assert await rig.all_rows() == rows
    assert 3 not in await rig.cold_rows()


async def anew(rig: Rig, *, orphan_grace_ms: int) -> None:
    """Another mover in the place of the first."""
    await rig.mover.stop()
    rig.limits = replace(QUICK, rewrite_ms=0, orphan_grace_ms=orphan_grace_ms)
    rig.mover = rig.new_mover()


async def test_other_bytes_come_back(rig: Rig, directory_options: StoreOptions) -> None:
    await rig.fill(30)
    await rig.settled()
    files = rig.files()
    known = await rig.objects()
    place = Path(directory_options.url.removeprefix("file://"))

    def damage(shard: ShardName, step: Step) -> None:
        if step is Step.VERIFY:
            (new,) = {str(one.relative_to(place)) for one in place.rglob("*.parquet")} - known
            spoil(place / new)

    rig.on_step = damage
    await anew(rig, orphan_grace_ms=0)
    await rig.engine.delete_by_offset(SHARD, Offset(3))
    assert (await rig.mover.run_once()).failures == 1
    assert rig.files() == files
    assert await rig.objects() == known


async def test_a_damaged_file_is_not_made_anew(rig: Rig, directory_options: StoreOptions) -> None:
    await rig.fill(30)
    await rig.settled()
    files = rig.files()
    assert files[0].parquet
    place = Path(directory_options.url.removeprefix("file://")) / files[0].parquet.key
    await rig.engine.delete_by_offset(SHARD, Offset(3))
    spoil(place)
    assert (await rig.mover.run_once()).failures == 1
    assert rig.files() == files


def spoil(path: Path) -> None:
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff\x00\xff")


async def test_not_too_often(tmp_path: Path, directory_options: StoreOptions) -> None:
    async with Rig(tmp_path / "other", directory_options) as rig:
        await rig.create(TIERED)
        await rig.fill(30)
        await rig.settled()
        await rig.engine.delete_by_offset(SHARD, Offset(3))
        await rig.settled()
        assert rig.mover.status().totals.files_rewritten == 0
        assert 3 in await rig.cold_rows()


def test_which_files() -> None:
    def made(base: int, deleted: int = 0, *, final: bool = True) -> TierFile:
        return replace(tier_file(base, base + 10, final=final), deleted=deleted)

    marks = [Offset(at) for at in (5, 9, 10, 33, 45)]
    files = [made(0, 2), made(10), made(20), made(30, final=False), made(40, 1)]
    raw = replace(made(50), parquet=None, parquet_end=None, log=TierObject("l", 1, 1))
    start = Offset(0)
    assert outdated([*files, raw], Gone(start, [*marks, Offset(55)])) == [files[1], raw]
    assert outdated(files, Gone(start, [Offset(4), *marks])) == [files[0], files[1]]
    # Where the start has moved into a file, marks were forgotten, and their number says nothing.
    assert outdated(files[:1], Gone(Offset(6), [Offset(9)])) == files[:1]
    assert outdated(files[:1], Gone(Offset(6), [])) == []
    again = replace(files[0], deleted=1, start=Offset(6))
    assert outdated([again], Gone(Offset(6), [Offset(9)])) == []


@pytest.mark.parametrize("tier_format", ["log", "both"])
async def test_raw_segments_are_made_anew_too(
    tmp_path: Path, directory_options: StoreOptions, tier_format: str
) -> None:
    limits = replace(QUICK, rewrite_ms=0)
    async with Rig(tmp_path / "raw", directory_options, limits=limits) as rig:
        await rig.create({**TIERED, "tier.format": tier_format})
        rows = await rig.fill(60)
        await rig.settled()
        before, kept = rig.files(), batches(rig)
        await rig.engine.delete_by_offset(SHARD, Offset(3))
        await rig.engine.trim(SHARD, Offset(2))
        await rig.settled()
        gone = {0, 1, 3}
        local = rig.engine.local_start(SHARD)
        assert sorted(await rig.cold_rows()) == [at for at in range(local) if at not in gone]
        first, *others = rig.files()
        assert others == list(before[1:])
        assert (first.parquet is None, first.log is None) == (tier_format == "log", False)
        assert first.index
        assert first.timeindex
        assert b"".join([rows[3][1] or b""]) not in await rig.content(first.log or NOTHING)
        after = batches(rig)
        assert after.pop(0) != kept.pop(0)
        assert after == kept, "batches that nothing was deleted of are as they came"
        assert await rig.all_rows() == {at: row for at, row in rows.items() if at not in gone}
        assert rig.mover.status().totals.files_rewritten == 1
        await rig.settled()
        assert rig.mover.status().totals.files_rewritten == 1, "once is enough"


async def test_a_raw_segment_may_be_deleted_from_before_it_has_moved(
    tmp_path: Path, directory_options: StoreOptions
) -> None:
    """It moves as it is; so it is looked at again."""
    limits = replace(QUICK, rewrite_ms=0)
    async with Rig(tmp_path / "raw", directory_options, limits=limits) as rig:
        await rig.create({**TIERED, "tier.format": "log"})
        await rig.fill(30)

        def delete(shard: ShardName, step: Step) -> None:
            if step is Step.EXPORT:
                mark(rig, 3)

        rig.on_step = delete
        await anew(rig, orphan_grace_ms=0)
        await rig.settled()
        assert 3 not in await rig.cold_rows()


def mark(rig: Rig, offset: int) -> None:
    """At this very moment, and not when the event loop comes to it."""
    store = rig.engine._shard(SHARD).store  # type: ignore[attr-defined]
    if offset not in store.deleted():
        store.delete([Offset(offset)])
