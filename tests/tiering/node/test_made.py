"""Files that were made elsewhere, and those who remove what nobody names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stratamq.meta.tier.files import Replaced, TierFile, TierObject
from stratamq.model.errors import InvalidInput, ObjectNotFound
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.shard import shard_name
from stratamq.model.types import ShardName
from stratamq.node.core import NodeCore
from stratamq.tiering.keys import new_token
from stratamq.tiering.service import TierService
from stratamq.tiering.stores.store import Store
from tests.tiering.node.test_beginning import MOVING, node


class World(NamedTuple):
    core: NodeCore
    service: TierService
    store: Store
    shard: ShardName

    @property
    def file(self) -> TierFile:
        """The first."""
        return self.core.tier_cache.files(self.shard)[0]

    async def made(self, folder: Path) -> TierFile:
        """A file as good as the first one, which nothing names."""
        parquet = self.file.parquet
        assert parquet
        owner = self.service._context.owner
        key = f"{parquet.key.rpartition('-')[0]}-{new_token(owner)}.parquet"
        content = b"".join([piece async for piece in self.store.stream(parquet.key)])
        (folder / "made").write_bytes(content)
        await self.store.put_file(key, folder / "made", if_absent=True)
        return replace(self.file, parquet=TierObject(key, parquet.size, parquet.crc))

    async def commit(self, made: TierFile) -> None:
        replaced = Replaced((self.file.base_offset,), self.file.data_keys)
        await self.service.commit(made, replaced)

    async def remove_orphans(self) -> int:
        return await self.service.mover._cleaner.remove_orphans()

    async def keys(self) -> set[str]:
        return {listed.key async for listed in self.store.list()}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    core = node(tmp_path / "node", tier_interval_ms="3600000", tier_orphan_grace_ms="0")
    await core.start()
    await core.topics.create("orders", config={**MOVING, "storage.type": StorageType.SEGMENT})
    shard = shard_name(core.broker_cache.topic("orders").topic_id, 0)
    await core.drivers.batch_write("orders", [Record(value=b"v" * 100)] * 40, partition=0)
    await core.engines[StorageType.SEGMENT].roll(shard)
    await core.tiering._look()
    service = core.tiering._service
    assert isinstance(service, TierService)
    assert service._store
    await service.mover.run_once()  # behind the first, which it begins with
    assert core.tier_cache.files(shard)
    yield World(core, service, service._store, shard)
    await core.stop()


async def test_one_takes_the_place_of_the_other(world: World, tmp_path: Path) -> None:
    before, made = world.file, await world.made(tmp_path)
    await world.commit(made)
    assert world.file.parquet == made.parquet
    await world.service.commit(made, Replaced((before.base_offset,), before.data_keys))
    with pytest.raises(InvalidInput, match="rewritten since"):
        await world.service.commit(before, Replaced((before.base_offset,), before.data_keys))


async def test_what_is_about_to_be_named_stays(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, head = await world.made(tmp_path), world.store.head

    async def look(key: str) -> Any:
        found = await head(key)
        assert await world.remove_orphans() == 0
        return found

    monkeypatch.setattr(world.store, "head", look)
    await world.commit(made)
    assert world.file.data_keys <= await world.keys()


async def test_what_is_being_removed_is_not_named(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, made, delete = world.file, await world.made(tmp_path), world.store.delete

    async def remove(key: str) -> None:
        with pytest.raises(ObjectNotFound):
            await world.commit(made)
        await delete(key)

    monkeypatch.setattr(world.store, "delete", remove)
    assert await world.remove_orphans() == 1
    assert world.file == before
    monkeypatch.undo()
    with pytest.raises(ObjectNotFound):
        await world.commit(made)
    assert world.file == before


async def test_what_was_begun_while_it_was_looked_at_stays(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody names it between the look at it and its removal."""
    made = await world.made(tmp_path)
    flights, revision = world.service.mover.flights, world.core.meta.revision
    assert made.parquet
    naming = flights.of([made.parquet.key])

    async def begin() -> int:
        naming.__enter__()
        return await revision()

    around = world.service.mover.around
    monkeypatch.setattr(around.meta, "revision", begin)
    assert await world.remove_orphans() == 0
    naming.__exit__(None, None, None)
    assert made.parquet.key in await world.keys()
