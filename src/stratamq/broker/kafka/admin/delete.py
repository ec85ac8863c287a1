"""DeleteTopics; DeleteRecords, which removes everything below an offset; DeleteSelectedRecords."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.broker.kafka.admin.task_pool import TaskPool
from stratamq.broker.kafka.cluster import find_topic, uuid_of
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import LATE, ApiError, Refused, api_error, duplicate, duplicates
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    DeletedSelection,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    DeleteSelectedRecordsRequest,
    DeleteSelectedRecordsResponse,
    SelectedRecords,
)
from stratamq.wire.kafka.protocol.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

DISABLED_SINCE = 3
"""DeleteTopics versions that know the code TOPIC_DELETION_DISABLED."""

HIGH_WATERMARK = -1
NOWHERE = -1


class DeleteTopics:
    """By name, or by id from version 6 on."""

    def __init__(self, services: Services, tasks: TaskPool) -> None:
        self._services, self._tasks = services, tasks

    async def delete(self, request: DeleteTopicsRequest, caller: Caller) -> DeleteTopicsResponse:
        asked = [
            *request.topics,
            *(DeleteTopicState(name=name, topic_id=NO_UUID) for name in request.topic_names),
        ]
        doubled = duplicates((one.name, one.topic_id) for one in asked)
        each = {(one.name, one.topic_id): one for one in asked}

        async def topic(one: DeleteTopicState) -> DeletableTopicResult:
            return await self._topic(one, (one.name, one.topic_id) in doubled, caller)

        answers = await self._tasks.each(
            list(each.values()), topic, request.timeout_ms, lambda one: self._failed(one, LATE)
        )
        return DeleteTopicsResponse(responses=answers)

    async def _topic(
        self, asked: DeleteTopicState, doubled: bool, caller: Caller
    ) -> DeletableTopicResult:
        try:
            if not self._services.config.flag("delete.topic.enable"):
                known = caller.version >= DISABLED_SINCE
                raise Refused(
                    ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
                )
            if doubled:
                raise duplicate(asked.name or asked.topic_id.hex())
            if (asked.name is None) == (asked.topic_id == NO_UUID):
                raise Refused(
                    ErrorCode.INVALID_REQUEST, "a topic is deleted by its name or by its id"
                )
            topic = find_topic(self._services.broker_cache, asked.name or "", asked.topic_id)
            await self._services.topics.delete(topic.name, topic.topic_id)
        except StrataError as error:
            return self._failed(asked, api_error(error))
        return DeletableTopicResult(name=topic.name, topic_id=uuid_of(topic))

    def _failed(self, asked: DeleteTopicState, why: ApiError) -> DeletableTopicResult:
        return DeletableTopicResult(
            name=asked.name,
            topic_id=asked.topic_id,
            error_code=why.code,
            error_message=why.message,
        )


class TrimmedPartition(NamedTuple):
    topic: str
    partition: DeleteRecordsPartition


class DeleteRecords:
    def __init__(self, services: Services, tasks: TaskPool) -> None:
        self._services, self._tasks = services, tasks

    async def delete(self, request: DeleteRecordsRequest, caller: Caller) -> DeleteRecordsResponse:
        """As in Kafka, the leader deletes first and then waits `timeout_ms` for the replicas. There
        is no replica to wait for yet, so the answer never is that it took too long."""
        asked = [
            TrimmedPartition(topic.name, one)
            for topic in request.topics
            for one in topic.partitions
        ]
        answers = await self._tasks.each(
            asked, self._partition, None, lambda one: self._failed(one, LATE)
        )
        each = iter(answers)
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=[next(each) for _ in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    async def _partition(self, asked: TrimmedPartition) -> DeleteRecordsPartitionResult:
        services, name = self._services, asked.topic
        number, offset = asked.partition.partition_index, asked.partition.offset
        try:
            shard, _ = await services.partitions.led(name, number)
            config = services.broker_cache.topic(name).config
            if config.compacts and not config.deletes:
                raise Refused(ErrorCode.POLICY_VIOLATION, "only compaction deletes from this topic")
            start, committed, _ = shard.offsets()
            if offset == HIGH_WATERMARK:
                offset = committed
            if not 0 <= offset <= committed:
                raise OffsetOutOfRange(name, offset, start, committed)
            start = await services.drivers.trim(name, number, Offset(offset))
        except StrataError as error:
            return self._failed(asked, api_error(error))
        return DeleteRecordsPartitionResult(partition_index=number, low_watermark=start)

    def _failed(self, asked: TrimmedPartition, why: ApiError) -> DeleteRecordsPartitionResult:
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition.partition_index,
            low_watermark=NOWHERE,
            error_code=why.code,
        )


class DeleteSelectedRecords:
    """Records of a key, or single ones by offset. No reader sees them once it is answered; their
    bytes go with compaction, and from history when its files are rewritten.

    A client that is late repeats its request: what is deleted already is not counted again.
    """

    def __init__(self, services: Services, tasks: TaskPool) -> None:
        self._services, self._tasks = services, tasks

    async def delete(
        self, request: DeleteSelectedRecordsRequest, caller: Caller
    ) -> DeleteSelectedRecordsResponse:
        answers = await self._tasks.each(
            request.topics,
            self._selection,
            request.timeout_ms,
            lambda one: self._failed(one, LATE),
        )
        return DeleteSelectedRecordsResponse(topics=answers)

    async def _selection(self, asked: SelectedRecords) -> DeletedSelection:
        drivers, name, number = self._services.drivers, asked.name, asked.partition_index
        try:
            if (asked.key is None) == (asked.offset < 0):
                raise Refused(ErrorCode.INVALID_REQUEST, "name either a key or an offset")
            await self._services.partitions.led(name, number)
            if asked.key is not None:
                deleted = await drivers.delete_by_key(name, asked.key, partition=number)
            else:
                deleted = await drivers.delete_by_offset(name, number, Offset(asked.offset))
        except StrataError as error:
            return self._failed(asked, api_error(error))
        return DeletedSelection(name=name, partition_index=number, deleted=int(deleted))

    def _failed(self, asked: SelectedRecords, why: ApiError) -> DeletedSelection:
        return DeletedSelection(
            name=asked.name,
            partition_index=asked.partition_index,
            error_code=why.code,
            error_message=why.message,
        )
