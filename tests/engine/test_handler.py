"""Leader here or elsewhere: where a write goes, and what it takes along."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from stratamq.engine.contract import Acks, AppendResult
from stratamq.engine.handler import Local, Remote, StorageEngineHandler
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.model.errors import InvalidConfig, NotLeader
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.types import LeaderEpoch, NodeId, Offset, ShardName
from tests.engine.support import S, T, batch, read_all, record, spec, values

MEMORY, ROCKSDB = StorageType.MEMORY, StorageType.ROCKSDB
OTHER = NodeId(9)


class Led:
    """Leadership as a table; what is not in it is led here."""

    def __init__(self, leaders: dict[ShardName, Local | Remote]) -> None:
        self._leaders = leaders

    def leader_of(self, shard: ShardName) -> Local | Remote:
        return self._leaders.get(shard, Local())


class Line:
    """The other node, with a handler of its own behind the line."""

    def __init__(self, other: StorageEngineHandler) -> None:
        self._other = other
        self.acks: list[tuple[NodeId, Acks | None]] = []

    async def batch_write(
        self, node: NodeId, shard: ShardName, records: Sequence[Record], acks: Acks | None
    ) -> range:
        self.acks.append((node, acks))
        return await self._other.batch_write(MEMORY, shard, records, acks)

    async def append_batch(
        self, node: NodeId, shard: ShardName, data: bytes, acks: Acks | None
    ) -> AppendResult:
        self.acks.append((node, acks))
        return await self._other.append_batch(MEMORY, shard, data, acks)

    async def delete_by_key(self, node: NodeId, shard: ShardName, key: bytes) -> int:
        return await self._other.delete_by_key(MEMORY, shard, key)

    async def delete_by_offset(self, node: NodeId, shard: ShardName, offset: Offset) -> bool:
        return await self._other.delete_by_offset(MEMORY, shard, offset)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[EngineMemory]:
    engine = EngineMemory(tmp_path)
    await engine.open()
    await engine.create_shard(spec(S))
    yield engine
    await engine.close()


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[EngineMemory]:
    engine = EngineMemory(tmp_path)
    await engine.open()
    await engine.create_shard(spec(T))
    yield engine
    await engine.close()


async def test_a_single_node_leads_everything(here: EngineMemory) -> None:
    handler = StorageEngineHandler({MEMORY: here})
    assert await handler.write(MEMORY, S, record(b"0", b"k")) == 0
    assert await handler.batch_write(MEMORY, S, [record(b"1"), record(b"2")]) == range(1, 3)
    assert (await handler.append_batch(MEMORY, S, batch(b"3"))).base_offset == 3
    assert await handler.delete_by_key(MEMORY, S, b"k") == 1
    assert await handler.delete_by_offset(MEMORY, S, Offset(2)) is True
    assert values(await read_all(here)) == [b"1", b"3"]


async def test_the_storage_type_chooses_the_engine(here: EngineMemory, tmp_path: Path) -> None:
    rocks = EngineRocksDB(tmp_path)
    await rocks.open()
    await rocks.create_shard(spec(S))
    handler = StorageEngineHandler({MEMORY: here, ROCKSDB: rocks})
    await handler.write(MEMORY, S, record(b"in memory"))
    await handler.write(ROCKSDB, S, record(b"in rocksdb"))
    assert values(await read_all(here)) == [b"in memory"]
    assert values(await read_all(rocks)) == [b"in rocksdb"]
    with pytest.raises(InvalidConfig):
        await handler.write(StorageType.SEGMENT, S, record(b"nowhere"))
    await rocks.close()


async def test_the_leaders_epoch_is_written(here: EngineMemory) -> None:
    handler = StorageEngineHandler({MEMORY: here}, Led({S: Local(LeaderEpoch(4))}))
    await handler.append_batch(MEMORY, S, batch(b"v"))
    assert here.epochs(S) == ((4, 0),)


async def test_without_a_forwarder_others_shards_are_refused(here: EngineMemory) -> None:
    handler = StorageEngineHandler({MEMORY: here}, Led({S: Remote(OTHER)}))
    for call in (
        handler.write(MEMORY, S, record(b"v")),
        handler.batch_write(MEMORY, S, [record(b"v")]),
        handler.append_batch(MEMORY, S, batch(b"v")),
        handler.delete_by_key(MEMORY, S, b"k"),
        handler.delete_by_offset(MEMORY, S, Offset(0)),
    ):
        with pytest.raises(NotLeader, match="node 9"):
            await call
    assert await read_all(here) == []


@pytest.mark.parametrize("acks", [*Acks, None])
async def test_forwarded_writes_keep_their_acks(
    here: EngineMemory, there: EngineMemory, acks: Acks | None
) -> None:
    """Turning them into 1 on the way would break the caller's promise."""
    line = Line(StorageEngineHandler({MEMORY: there}))
    handler = StorageEngineHandler({MEMORY: here}, Led({T: Remote(OTHER)}), line)
    assert await handler.write(MEMORY, T, record(b"0", b"k"), acks) == 0
    assert await handler.batch_write(MEMORY, T, [record(b"1"), record(b"2")], acks) == range(1, 3)
    assert (await handler.append_batch(MEMORY, T, batch(b"3"), acks)).base_offset == 3
    assert line.acks == [(OTHER, acks)] * 3
    assert await handler.delete_by_key(MEMORY, T, b"k") == 1
    assert await handler.delete_by_offset(MEMORY, T, Offset(1)) is True
    assert values(await read_all(there, T)) == [b"2", b"3"]
