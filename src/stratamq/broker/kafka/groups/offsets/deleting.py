"""OffsetDelete: forget what a group committed for topics it does not read."""

from __future__ import annotations

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.failures import group_code
from stratamq.broker.kafka.groups.offsets.places import Places
from stratamq.broker.kafka.groups.subscribed import subscribed_topics
from stratamq.broker.kafka.turns import paced
from stratamq.model.errors import StrataError
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


class DeleteApi:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    async def delete(self, request: OffsetDeleteRequest, caller: Caller) -> OffsetDeleteResponse:
        name = request.group_id
        try:
            used = await self._used_topics(name)
            if isinstance(used, ErrorCode):
                return OffsetDeleteResponse(error_code=used, topics=[])
            shards: list[ShardName] = []
            topics = [
                await self._topic(topic, used, shards) async for topic in paced(request.topics)
            ]
            if shards:
                await self._coordinator.services.offsets.delete(name, shards)
        except StrataError as error:
            return OffsetDeleteResponse(error_code=group_code(error), topics=[])
        return OffsetDeleteResponse(topics=topics)

    async def _used_topics(self, name: str) -> frozenset[str] | ErrorCode:
        """The topics whose offsets the group still needs, or why none can be deleted."""
        cell = self._coordinator.find(name)
        if cell is None:
            known = await self._coordinator.services.offsets.has_group(name)
            return frozenset() if known else ErrorCode.GROUP_ID_NOT_FOUND
        if cell.machine.state == "Empty":
            return frozenset()
        topics = subscribed_topics(cell.machine)
        return ErrorCode.NON_EMPTY_GROUP if topics is None else topics

    async def _topic(
        self, topic: OffsetDeleteRequestTopic, used: frozenset[str], shards: list[ShardName]
    ) -> OffsetDeleteResponseTopic:
        places = Places(self._coordinator.services.broker_cache, by_id=False)
        known = places.topic(topic.name, NO_UUID)
        answers = []
        async for partition in paced(topic.partitions):
            place = places.place(known, partition.partition_index)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic.name in used else place.error
            if place.shard is not None and not error:
                shards.append(place.shard)
            answers.append(
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
        return OffsetDeleteResponseTopic(name=topic.name, partitions=answers)
