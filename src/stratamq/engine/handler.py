"""Leader here? Write to the engine. Leader elsewhere? Pass the write on, as it came.

Who leads is decided elsewhere and comes in by `Leadership`; how a write gets to another node comes
in by `Forwarder`. A single node leads everything and forwards nothing. Reads need no leader: every
node that stores a shard serves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from stratamq.engine.contract import AcceptedBatch, Acks, AppendResult, ShardWriting
from stratamq.engine.handle import Local, Remote, ShardHandle, append_batch
from stratamq.meta.shards import StorageCacheManager
from stratamq.model.errors import InvalidConfig, NotLeader
from stratamq.model.record import Record
from stratamq.model.settings.topic import StorageType
from stratamq.model.transaction import TransactionMarker
from stratamq.model.types import NodeId, Offset, ShardName
from stratamq.wire.kafka.records import Buffer


class Leadership(Protocol):
    def leader_of(self, shard: ShardName) -> Local | Remote:
        """Who leads the shard now."""


class SingleNode:
    """Leadership where one engine is all there is."""

    def leader_of(self, shard: ShardName) -> Local | Remote:
        return Local()


class MetaLeadership:
    """Leadership as this node's copy of the metadata has it: the active segment names its leader
    and the epoch. A shard that the Meta Service does not place is led by every node that has it."""

    def __init__(self, cache: StorageCacheManager, node: NodeId) -> None:
        self._cache, self._node = cache, node

    def leader_of(self, shard: ShardName) -> Local | Remote:
        entry = self._cache.shard(shard)
        segment = None if entry is None else entry.active
        if segment is None:
            return Local()
        if segment.leader != self._node:
            return Remote(segment.leader)
        return Local(segment.leader_epoch)


class Forwarder(Protocol):
    """Takes writes to the node that leads. `acks` goes along: the caller's wish is not ours to
    change, and None stays None, since the topic's own policy is known there as well."""

    async def batch_write(
        self, node: NodeId, shard: ShardName, records: Sequence[Record], acks: Acks | None
    ) -> range: ...

    async def append_batch(
        self, node: NodeId, shard: ShardName, data: Buffer, acks: Acks | None
    ) -> AppendResult: ...

    async def delete_by_key(self, node: NodeId, shard: ShardName, key: bytes) -> int: ...

    async def delete_by_offset(self, node: NodeId, shard: ShardName, offset: Offset) -> bool: ...


class StorageEngineHandler:
    """The engines of a node behind one door for everything that only a leader may do."""

    def __init__(
        self,
        engines: Mapping[StorageType, ShardWriting],
        leadership: Leadership | None = None,
        forwarder: Forwarder | None = None,
    ) -> None:
        self._engines = engines
        self._leadership = leadership or SingleNode()
        self._forwarder = forwarder

    def _engine(self, storage: StorageType) -> ShardWriting:
        try:
            return self._engines[storage]
        except KeyError:
            raise InvalidConfig(f"this node keeps no topics in {storage}") from None

    def handle(self, storage: StorageType, shard: ShardName) -> ShardHandle:
        """The shard, with the leader that it has now."""
        return self._engine(storage).handle(shard, self._leadership.leader_of(shard))

    async def write(
        self, storage: StorageType, shard: ShardName, record: Record, acks: Acks | None = None
    ) -> Offset:
        return Offset((await self.batch_write(storage, shard, (record,), acks)).start)

    async def batch_write(
        self,
        storage: StorageType,
        shard: ShardName,
        records: Sequence[Record],
        acks: Acks | None = None,
    ) -> range:
        leader = self._leadership.leader_of(shard)
        if isinstance(leader, Local):
            return await self._engine(storage).batch_write(shard, records, acks)
        node, forwarder = self._to(leader, shard)
        return await forwarder.batch_write(node, shard, records, acks)

    async def append_batch(
        self,
        storage: StorageType,
        shard: ShardName,
        data: Buffer | AcceptedBatch,
        acks: Acks | None = None,
    ) -> AppendResult:
        leader = self._leadership.leader_of(shard)
        if isinstance(leader, Local):
            return await append_batch(self._engine(storage).handle(shard, leader), data, acks)
        if isinstance(data, AcceptedBatch):  # the leader was another one when it was looked at
            data = data.data
        node, forwarder = self._to(leader, shard)
        return await forwarder.append_batch(node, shard, data, acks)

    async def write_marker(
        self, storage: StorageType, shard: ShardName, marker: TransactionMarker
    ) -> Offset:
        """Never forwarded: a coordinator asks the leader itself, by its own request."""
        leader = self._leadership.leader_of(shard)
        if isinstance(leader, Local):
            return await self._engine(storage).write_marker(shard, marker, leader.epoch)
        raise NotLeader(f"node {leader.node} leads {shard}")

    async def delete_by_key(self, storage: StorageType, shard: ShardName, key: bytes) -> int:
        leader = self._leadership.leader_of(shard)
        if isinstance(leader, Local):
            return await self._engine(storage).delete_by_key(shard, key)
        node, forwarder = self._to(leader, shard)
        return await forwarder.delete_by_key(node, shard, key)

    async def delete_by_offset(
        self, storage: StorageType, shard: ShardName, offset: Offset
    ) -> bool:
        leader = self._leadership.leader_of(shard)
        if isinstance(leader, Local):
            return await self._engine(storage).delete_by_offset(shard, offset)
        node, forwarder = self._to(leader, shard)
        return await forwarder.delete_by_offset(node, shard, offset)

    def _to(self, leader: Remote, shard: ShardName) -> tuple[NodeId, Forwarder]:
        if leader.node is None:
            raise NotLeader(f"{shard} has no leader just now")
        if self._forwarder is None:
            raise NotLeader(f"node {leader.node} leads {shard}, and nothing is forwarded from here")
        return leader.node, self._forwarder
