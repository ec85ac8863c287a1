"""What nobody needs goes, and nothing else does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.meta.tier.cache import TierCache
from stratamq.meta.tier.files import CommitFiles, DropFiles, RetiredObject, TierFile, TierObject
from stratamq.model.clock import ManualClock
from stratamq.model.errors import StoreUnavailable
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.tiering import keys
from stratamq.tiering.mover.orphans import Cleaner
from stratamq.tiering.mover.ship import Flights
from stratamq.tiering.stores.options import StoreOptions
from tests.tiering.mover.rig import OWNER, SHARD, TOPIC_ID, Rig
from tests.tiering.stores.proxy import Fault, Message, proxy_to

FOLDER = keys.topic_folder("orders", TOPIC_ID)
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    """It begins with the store's time, which is the machine's."""
    return ManualClock(int(time.time() * 1000))


@pytest.fixture
async def rig(
    directory_options: StoreOptions, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Rig]:
    async with Rig(tmp_path / "node", directory_options, clock=clock) as opened:
        await opened.create()
        yield opened


def cleaner(rig: Rig, grace_ms: int = HOUR_MS) -> Cleaner:
    return Cleaner(rig.mover.around, rig.mover.flights, grace_ms)


def new_key(base: int = 0, owner: str = OWNER) -> str:
    return keys.data_key(FOLDER, 0, Offset(base), Offset(base + 10), keys.new_token(owner))


async def put(rig: Rig, key: str) -> TierObject:
    stored = await rig.store.put(key, b"bytes")
    assert stored.crc32c is not None
    return TierObject(key, stored.size, stored.crc32c)


def file(stored: TierObject, base: int = 0) -> TierFile:
    return TierFile(
        shard=SHARD,
        base_offset=Offset(base),
        end_offset=Offset(base + 10),
        final=False,
        log=stored,
    )


async def commit(rig: Rig, add: TierFile, *replaced: int) -> None:
    command = CommitFiles(
        shard=SHARD,
        add=(add,),
        replace=tuple(map(Offset, replaced)),
        now_ms=rig.clock.now_ms(),
    )
    await rig.meta.submit(command)


async def test_orphans_go_after_a_while(rig: Rig, clock: ManualClock) -> None:
    orphan, named = new_key(), new_key(20)
    log = keys.log_keys(FOLDER, 0, Offset(3), keys.new_token(OWNER))
    await put(rig, orphan)
    for key in (log.log, log.index, log.timeindex):
        await put(rig, key)
    await commit(rig, file(await put(rig, named), 20))
    assert await cleaner(rig).remove_orphans() == 0
    clock.advance(HOUR_MS + 1000)
    assert await cleaner(rig).remove_orphans() == 4
    assert await rig.objects() == {named}
    assert await cleaner(rig).remove_orphans() == 0


async def test_of_a_topic_that_is_gone(rig: Rig, clock: ManualClock) -> None:
    orphan = new_key()
    await put(rig, orphan)
    await rig.delete(rig.topics[0])
    clock.advance(HOUR_MS + 1000)
    assert await cleaner(rig).remove_orphans() == 1


@pytest.mark.parametrize(
    "key",
    [
        new_key(owner=keys.owner_mark("another cluster")),
        keys.manifest_key(FOLDER),
        f"{keys.metadata_prefix(FOLDER)}00000-a.metadata.json",
        f"{FOLDER}/data/partition=0/part-00000.parquet",
        f"orders/data/partition=0/{0:020d}-{10:020d}-{OWNER}{'0' * 16}.parquet",
        "somebody/elses",
    ],
)
async def test_foreign_objects_stay(rig: Rig, clock: ManualClock, key: str) -> None:
    await put(rig, key)
    clock.advance(1000 * HOUR_MS)
    assert await cleaner(rig).remove_orphans() == 0
    assert await rig.objects() == {key}


async def test_what_is_on_its_way_stays(rig: Rig, clock: ManualClock) -> None:
    key = new_key()
    await put(rig, key)
    clock.advance(1000 * HOUR_MS)
    with rig.mover.flights.of([key]):
        assert await cleaner(rig).remove_orphans() == 0
    assert await cleaner(rig).remove_orphans() == 1


class Late(TierCache):
    """Knows what happened only when it is asked to catch up."""

    caught_up = True
    old: Mapping[str, RetiredObject]

    def files(self, shard: ShardName) -> tuple[TierFile, ...]:
        return super().files(shard) if self.caught_up else ()

    def retired(self) -> Mapping[str, RetiredObject]:
        return super().retired() if self.caught_up else self.old

    async def wait_for_revision(self, revision: int, timeout_s: float) -> None:
        await super().wait_for_revision(revision, timeout_s)
        self.caught_up = True


@pytest.fixture
async def late(rig: Rig) -> AsyncIterator[Late]:
    cache = Late(rig.meta)
    cache.old = {}
    await cache.start()
    yield cache
    await cache.stop()


async def test_named_since_we_looked(rig: Rig, clock: ManualClock, late: Late) -> None:
    """Our own copy of the metadata is old: the Meta Service is asked before anything goes."""
    key = new_key()
    await commit(rig, file(await put(rig, key)))
    clock.advance(1000 * HOUR_MS)
    late.caught_up = False
    around = replace(rig.mover.around, files=late)
    assert await Cleaner(around, rig.mover.flights, HOUR_MS).remove_orphans() == 0
    assert await rig.objects() == {key}


async def test_used_again_since_we_looked(rig: Rig, clock: ManualClock, late: Late) -> None:
    """Retired, and then named by another file."""
    key, other = new_key(), new_key()
    stored = await put(rig, key)
    await commit(rig, file(stored))
    await commit(rig, file(await put(rig, other)), 0)
    await late.wait_for_revision(await rig.meta.revision(), 5)
    late.old = dict(late.retired())
    assert key in late.old
    await commit(rig, file(stored), 0)
    clock.advance(1000 * HOUR_MS)
    late.caught_up = False
    around = replace(rig.mover.around, files=late)
    assert await Cleaner(around, rig.mover.flights, HOUR_MS).remove_retired() == 0
    assert key in await rig.objects()


async def test_retired_objects_have_their_time(rig: Rig, clock: ManualClock) -> None:
    files = [file(await put(rig, new_key(base)), base) for base in range(0, 3000, 10)]
    for one in files:
        await commit(rig, one)
    drop = DropFiles(shard=SHARD, below=Offset(2990), now_ms=clock.now_ms())
    await rig.cache.wait_for_revision(await rig.meta.submit(drop), 5)
    assert await cleaner(rig).remove_retired() == 0
    clock.advance(HOUR_MS)
    assert await cleaner(rig).remove_orphans() == 0, "those are for the other"
    assert await cleaner(rig).remove_retired() == 299
    assert not rig.meta.state.retired
    assert len(await rig.objects()) == 1


async def test_retired_with_the_shard_they_go_at_once(rig: Rig) -> None:
    await commit(rig, file(await put(rig, new_key())))
    await rig.delete(rig.topics[0])
    await rig.cache.wait_for_revision(await rig.meta.revision(), 5)
    assert await cleaner(rig).remove_retired() == 1
    assert await rig.objects() == set()


async def test_a_store_that_is_down_keeps_what_is_retired(
    s3_options: StoreOptions, tmp_path: Path
) -> None:
    async with proxy_to(s3_options.s3_endpoint) as (proxy, address):
        limits = replace(s3_options.limits, attempts_max=2)
        options = replace(s3_options, s3_endpoint=address, limits=limits)
        async with Rig(tmp_path / "node", options) as rig:
            await rig.create()
            await commit(rig, file(await put(rig, new_key())))
            drop = DropFiles(shard=SHARD, below=Offset(50), now_ms=TimestampMs(0))
            await rig.cache.wait_for_revision(await rig.meta.submit(drop), 5)
            proxy.spoil(ever=Fault.BUSY_503)
            with pytest.raises(StoreUnavailable):
                await cleaner(rig).remove_retired()
            assert (await rig.mover.run_once()).removed == 0
            assert len(rig.meta.state.retired) == 1
            proxy.spoil()
            assert (await rig.mover.run_once()).removed == 1
            assert await rig.objects() == set()


def is_list(request: Message) -> bool:
    return "list-type" in request.target


async def test_listings_may_be_old(s3_options: StoreOptions, tmp_path: Path) -> None:
    """What was an orphan when it was listed has got a name since."""
    async with proxy_to(s3_options.s3_endpoint) as (proxy, address):
        options = replace(s3_options, s3_endpoint=address)
        async with Rig(tmp_path / "node", options) as rig:
            await rig.create()
            key = new_key()
            stored = await put(rig, key)
            assert await rig.objects() == {key}
            await commit(rig, file(stored))
            proxy.spoil(only=is_list, ever=Fault.STALE)
            other = new_key(20)
            await put(rig, other)
            assert await cleaner(rig, 0).remove_orphans() == 0
            proxy.spoil()
            assert await rig.objects() == {key, other}
            assert await cleaner(rig, 0).remove_orphans() == 1
            assert await rig.objects() == {key}


async def test_uploads_under_way_are_not_swept(rig: Rig, clock: ManualClock) -> None:
    asked: list[int] = []

    class Sweeping:
        async def sweep(self, before_ms: int) -> int:
            asked.append(before_ms)
            return await rig.store.sweep(before_ms)

    around = replace(rig.mover.around, store=Sweeping())  # type: ignore[arg-type]
    flights = Flights(clock)
    now = clock.now_ms()
    await Cleaner(around, flights, HOUR_MS).sweep()
    with flights.of(["a"]):
        clock.advance(5 * HOUR_MS)
        await Cleaner(around, flights, HOUR_MS).sweep()
    assert asked == [now - HOUR_MS, now - 1]
