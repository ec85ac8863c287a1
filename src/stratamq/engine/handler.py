"""Leader here? Write to the engine. Leader elsewhere? Pass the write on, as it came.

Who leads is decided elsewhere and comes in by `Leadership`; how a write gets to another node comes
in by `Forwarder`. A single node leads everything and forwards nothing. Reads need no leader:
whoever has the shard serves them, through `engine`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from stratamq.engine.acks import Acks
from stratamq.engine.contract import AcceptedBatch, Appender, AppendResult, StorageEngine
from stratamq.model.errors import InvalidConfig, NotLeader
from stratamq.model.producer import TransactionMarker
from stratamq.model.record import Record
from stratamq.model.topic import StorageType
from stratamq.model.types import LeaderEpoch, NodeId, Offset, ShardName
from stratamq.wire.kafka.records import Buffer, Scratch


class Local(NamedTuple):
    """This node leads, under this epoch; None where nobody counts."""

    epoch: LeaderEpoch | None = None


class Remote(NamedTuple):
    """Another node leads."""

    node: NodeId


class Leadership(Protocol):
    def leader_of(self, shard: ShardName) -> Local | Remote:
        """NotLeader when nobody leads just now."""


class SingleNode:
    """Leadership of a node that is alone."""

    def leader_of(self, shard: ShardName) -> Local | Remote:
        return Local()


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
        engines: Mapping[StorageType, StorageEngine],
        leadership: Leadership | None = None,
        forwarder: Forwarder | None = None,
    ) -> None:
        self._engines = engines
        self._leadership = leadership or SingleNode()
        self._forwarder = forwarder

    def engine(self, storage: StorageType) -> StorageEngine:
        try:
            return self._engines[storage]
        except KeyError:
            raise InvalidConfig(f"this node keeps no topics in {storage}") from None

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
            return await self.engine(storage).batch_write(shard, records)
        return await self._to(leader, shard).batch_write(leader.node, shard, records, acks)

    def accept(
        self,
        storage: StorageType,
        shard: ShardName,
        data: Buffer,
        *,
        decompressed_max: int,
        scratch: Scratch | None = None,
    ) -> Buffer | AcceptedBatch:
        """See StorageEngine. Where another node leads, that node looks at the batch."""
        if not isinstance(self._leadership.leader_of(shard), Local):
            return data
        engine = self.engine(storage)
        return engine.accept(shard, data, decompressed_max=decompressed_max, scratch=scratch)

    async def append_batch(
        self,
        storage: StorageType,
        shard: ShardName,
        data: Buffer | AcceptedBatch,
        acks: Acks | None = None,
    ) -> AppendResult:
        leader = self._leadership.leader_of(shard)
        if isinstance(leader, Local):
            return await self.engine(storage).append_batch(shard, data, leader.epoch)
        if isinstance(data, AcceptedBatch):  # the leader was another one when it was looked at
            data = data.data
        return await self._to(leader, shard).append_batch(leader.node, shard, data, acks)

    def appender(self, storage: StorageType, shard: ShardName) -> Appender | None:
        """See StorageEngine. None where the batch has to go to another node."""
        leader = self._leadership.leader_of(shard)
        if not isinstance(leader, Local):
            return None
        return self.engine(storage).appender(shard, leader.epoch)

    async def write_marker(
        self, storage: StorageType, shard: ShardName, marker: TransactionMarker
    ) -> Offset:
        """Never forwarded: a coordinator asks the leader itself, by its own request."""
        leader = self._leadership.leader_of(shard)
        if isinstance(leader, Local):
            return await self.engine(storage).write_marker(shard, marker, leader.epoch)
        raise NotLeader(f"node {leader.node} leads {shard}")

    async def delete_by_key(self, storage: StorageType, shard: ShardName, key: bytes) -> int:
        leader = self._leadership.leader_of(shard)
        if isinstance(leader, Local):
            return await self.engine(storage).delete_by_key(shard, key)
        return await self._to(leader, shard).delete_by_key(leader.node, shard, key)

    async def delete_by_offset(
        self, storage: StorageType, shard: ShardName, offset: Offset
    ) -> bool:
        leader = self._leadership.leader_of(shard)
        if isinstance(leader, Local):
            return await self.engine(storage).delete_by_offset(shard, offset)
        return await self._to(leader, shard).delete_by_offset(leader.node, shard, offset)

    def _to(self, leader: Remote, shard: ShardName) -> Forwarder:
        if self._forwarder is None:
            raise NotLeader(f"node {leader.node} leads {shard}, and nothing is forwarded from here")
        return self._forwarder
