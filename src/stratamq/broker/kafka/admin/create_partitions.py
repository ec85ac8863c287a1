"""CreatePartitions: topics grow, and never shrink."""

from __future__ import annotations

import asyncio

from stratamq.adapter.shards import Placement
from stratamq.broker.kafka.admin.answers import failure, named_twice, twice
from stratamq.broker.kafka.admin.assignments import placement
from stratamq.broker.kafka.admin.deadline import Workshop
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.topics import Refused
from stratamq.model.errors import StrataError
from stratamq.model.topic import Topic
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


class CreatePartitions:
    def __init__(self, services: Services, workshop: Workshop) -> None:
        self._services, self._workshop = services, workshop

    async def create(
        self, request: CreatePartitionsRequest, caller: Caller
    ) -> CreatePartitionsResponse:
        doubled = named_twice(topic.name for topic in request.topics)
        each = {topic.name: topic for topic in request.topics}
        answers = [self._topic(topic, request, topic.name in doubled) for topic in each.values()]
        return CreatePartitionsResponse(results=await asyncio.gather(*answers))

    async def _topic(
        self, asked: CreatePartitionsTopic, request: CreatePartitionsRequest, doubled: bool
    ) -> CreatePartitionsTopicResult:
        try:
            if doubled:
                raise twice(asked.name)
            topic = self._services.broker_cache.topic(asked.name)
            self._check_count(topic, asked.count)
            placed = self._placed(topic, asked)
            if not request.validate_only:
                await self._workshop.within(
                    request.timeout_ms, self._grow(topic, asked.count, placed)
                )
        except StrataError as error:
            code, message = failure(error)
            return CreatePartitionsTopicResult(
                name=asked.name, error_code=code, error_message=message
            )
        return CreatePartitionsTopicResult(name=asked.name)

    async def _grow(self, topic: Topic, partitions: int, placed: Placement | None) -> None:
        await self._services.topics.add_partitions(topic.name, partitions, placement=placed)

    def _check_count(self, topic: Topic, count: int) -> None:
        most = self._services.config.number("meta.partitions.per.topic.max")
        if topic.partitions < count <= most:
            return
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {topic.name!r} has {topic.partitions} partitions and can grow to {most}; "
            f"{count} were asked for",
        )

    def _placed(self, topic: Topic, asked: CreatePartitionsTopic) -> Placement | None:
        if asked.assignments is None:
            return None
        added = asked.count - topic.partitions
        if len(asked.assignments) != added:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partitions are added, but {len(asked.assignments)} are placed by hand",
            )
        given = [one.broker_ids for one in asked.assignments]
        return placement(given, self._services.meta.state.live_nodes(), topic.replicas)
