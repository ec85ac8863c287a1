"""Partitions as requests name them, each found once per change of metadata.

A request names a topic by name or id and a partition by number. What that leads to (the topic, who
leads it, the shard, what its configs say about batches) is the same for every request until the
metadata of topics or shards changes; then everything is found again when it is next asked for.
"""

from __future__ import annotations

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.broker.kafka.cluster import active_segment, find_topic
from stratamq.broker.kafka.errors import Refused
from stratamq.broker.kafka.produce.rules import ProduceRules, rules_of
from stratamq.engine.handle import Local, ShardHandle
from stratamq.meta.shards import StorageCacheManager
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.topic import Topic
from stratamq.model.types import NO_EPOCH
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode

PARTITIONS_MAX = 100_000
"""Partitions that are remembered. When the limit is reached, all are found again."""


class ServedPartition:
    """A partition that this node may be asked about. `shard` is None while its storage is not open;
    `isr_size` counts the replicas in sync."""

    __slots__ = ("isr_size", "number", "rules", "shard", "topic")

    def __init__(
        self,
        topic: Topic,
        number: int,
        shard: ShardHandle | None,
        rules: ProduceRules,
        isr_size: int,
    ) -> None:
        self.topic, self.number, self.shard = topic, number, shard
        self.rules, self.isr_size = rules, isr_size

    def lead(self, shard: ShardHandle, client_epoch: int = -1) -> int:
        """The epoch under which this node leads. Refused when it does not, or when the client says
        that it knows another epoch."""
        leader = shard.leader
        if not isinstance(leader, Local):
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        epoch = leader.epoch
        if epoch is None:
            return NO_EPOCH
        if client_epoch >= 0 and client_epoch != epoch:
            if client_epoch < epoch:
                raise Refused(ErrorCode.FENCED_LEADER_EPOCH)
            raise Refused(ErrorCode.UNKNOWN_LEADER_EPOCH)
        return epoch


class Partitions:
    """See the module. One for all families of a node."""

    def __init__(
        self,
        topics: BrokerCacheManager,
        shards: StorageCacheManager,
        drivers: StorageDriverManager,
    ) -> None:
        self._topics, self._shards, self._drivers = topics, shards, drivers
        self._found: dict[tuple[str | bytes, int], ServedPartition] = {}
        self._as_of = -1, -1

    def find(self, name: str, topic_id: bytes, number: int) -> ServedPartition:
        """By id where there is one. Refused, or the error that says why it cannot be served."""
        as_of = self._topics.changes, self._shards.changes
        if as_of != self._as_of:
            self._forget(as_of)
        key = name if topic_id == NO_UUID else topic_id
        found = self._found.get((key, number))
        if found is None or found.shard is None:
            topic = find_topic(self._topics, name, topic_id)
            found = self._found[key, number] = self._resolve(topic, number)
        return found

    async def open(self, name: str, topic_id: bytes, number: int) -> ServedPartition:
        """The same where a storage may have to be opened first, or asked for its offsets."""
        found = self.find(name, topic_id, number)
        if found.shard is None:
            found.shard = await self._drivers.open_handle(found.topic, number)
        if not found.shard.answers_at_once:
            await found.shard.refresh()
        return found

    async def led(self, name: str, number: int, client_epoch: int = -1) -> tuple[ShardHandle, int]:
        """The shard of a partition that this node leads, and the leader epoch."""
        found = await self.open(name, NO_UUID, number)
        assert found.shard is not None, "opened just now"
        return found.shard, found.lead(found.shard, client_epoch)

    def _forget(self, as_of: tuple[int, int]) -> None:
        self._found.clear()
        self._as_of = as_of

    def _resolve(self, topic: Topic, number: int) -> ServedPartition:
        if not 0 <= number < topic.partitions:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if len(self._found) >= PARTITIONS_MAX:
            self._forget(self._as_of)
        segment = active_segment(self._shards, topic, number)
        return ServedPartition(
            topic,
            number,
            self._drivers.handle(topic, number),
            rules_of(topic.config),
            0 if segment is None else len(segment.isr),
        )
