"""What transactions let a reader see, as the shards know it."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.adapter.drivers import StorageDriverManager
from stratamq.model.shard import ShardOffsets
from stratamq.model.topic import Topic
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol.messages.fetch import AbortedTransaction


class ShardStability:
    """A `Stability` (see fetch_reading)."""

    def __init__(self, drivers: StorageDriverManager) -> None:
        self._drivers = drivers

    async def last_stable(self, topic: Topic, partition: int, offsets: ShardOffsets) -> Offset:
        stable = await self._drivers.last_stable_offset(topic.name, partition)
        return min(stable, offsets.high_watermark)  # it may have moved since those were read

    async def aborted(
        self, topic: Topic, partition: int, start: Offset, end: Offset
    ) -> Sequence[AbortedTransaction]:
        found = await self._drivers.aborted_transactions(topic.name, partition, start, end)
        return [
            AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
            for one in found
            if one.first_offset < end and one.last_offset >= start
        ]
