"""CreatePartitions: topics grow, and never shrink."""

from __future__ import annotations

from stratamq.adapter.shards import Placement
from stratamq.broker.kafka.admin.assignments import placement
from stratamq.broker.kafka.admin.deadline import Workshop
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import LATE, ApiError, Refused, api_error, duplicate, duplicates
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
        doubled = duplicates(topic.name for topic in request.topics)
        each = {topic.name: topic for topic in request.topics}

        async def topic(asked: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
            return await self._topic(asked, asked.name in doubled, request.validate_only)

        answers = await self._workshop.each(
            list(each.values()), topic, request.timeout_ms, lambda asked: _failed(asked, LATE)
        )
        return CreatePartitionsResponse(results=answers)

    async def _topic(
        self, asked: CreatePartitionsTopic, doubled: bool, validate_only: bool
    ) -> CreatePartitionsTopicResult:
        try:
            if doubled:
                raise duplicate(asked.name)
            topic = self._services.broker_cache.topic(asked.name)
            self._check_count(topic, asked.count)
            placed = self._placed(topic, asked)
            if not validate_only:
                await self._services.topics.add_partitions(
                    topic.name, asked.count, placement=placed
                )
        except StrataError as error:
            return _failed(asked, api_error(error))
        return CreatePartitionsTopicResult(name=asked.name)

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


def _failed(asked: CreatePartitionsTopic, why: ApiError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=asked.name, error_code=why.code, error_message=why.message
    )
