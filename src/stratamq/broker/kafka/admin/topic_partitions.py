"""DescribeTopicPartitions: topics page by page, so that no answer is larger than its reader."""

from __future__ import annotations

from collections.abc import AsyncIterator

from stratamq.broker.kafka.cluster import partition_state, uuid_of
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import api_error
from stratamq.broker.kafka.turns import paced_sorted
from stratamq.model.errors import StrataError
from stratamq.model.topic import Topic
from stratamq.wire.kafka.protocol import NO_UUID
from stratamq.wire.kafka.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PAGE_MAX = 2000
"""Partitions of one answer, whatever is asked for; a topic without any counts as one."""


class DescribeTopicPartitions:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def describe(
        self, request: DescribeTopicPartitionsRequest, caller: Caller
    ) -> DescribeTopicPartitionsResponse:
        left = max(1, min(request.response_partition_limit, PAGE_MAX))
        topics: list[DescribeTopicPartitionsResponseTopic] = []
        answer = DescribeTopicPartitionsResponse(topics=topics)
        async for name, first in self._places(request):
            if left <= 0:
                answer.next_cursor = Cursor(topic_name=name, partition_index=first)
                break
            described = self._topic(name, first, left)
            topics.append(described)
            left -= max(len(described.partitions), 1)  # a topic that is not here takes its line
            if (rest := self._rest(name, first + len(described.partitions))) is not None:
                answer.next_cursor = Cursor(topic_name=name, partition_index=rest)
                break
        return answer

    async def _places(
        self, request: DescribeTopicPartitionsRequest
    ) -> AsyncIterator[tuple[str, int]]:
        """Names in order from the cursor on, each with the partition to begin with."""
        asked = {one.name for one in request.topics}
        names = asked or {topic.name for topic in self._services.broker_cache.topics()}
        cursor = request.cursor
        async for name in paced_sorted(names):
            if cursor is None or name > cursor.topic_name:
                yield name, 0
            elif name == cursor.topic_name:
                yield name, max(cursor.partition_index, 0)

    def _rest(self, name: str, reached: int) -> int | None:
        """The partition to go on with, when the topic is not at its end."""
        try:
            partitions = self._services.broker_cache.topic(name).partitions
        except StrataError:
            return None
        return reached if reached < partitions else None

    def _topic(self, name: str, first: int, limit: int) -> DescribeTopicPartitionsResponseTopic:
        try:
            topic = self._services.broker_cache.topic(name)
        except StrataError as error:
            return DescribeTopicPartitionsResponseTopic(
                error_code=api_error(error).code, name=name, topic_id=NO_UUID, partitions=[]
            )
        numbers = range(first, min(topic.partitions, first + limit))
        return DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=uuid_of(topic),
            partitions=[self._partition(topic, number) for number in numbers],
        )

    def _partition(self, topic: Topic, number: int) -> DescribeTopicPartitionsResponsePartition:
        seen = partition_state(self._services, topic, number)
        return DescribeTopicPartitionsResponsePartition(
            error_code=seen.error,
            partition_index=number,
            leader_id=seen.leader,
            leader_epoch=seen.epoch,
            replica_nodes=seen.replicas,
            isr_nodes=seen.isr,
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=seen.offline,
        )
