"""DeleteRecords: everything before an offset goes."""

from __future__ import annotations

import asyncio

from stratamq.broker.kafka.admin.answers import failure
from stratamq.broker.kafka.admin.deadline import Workshop
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.topics import Refused, lead
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
NOWHERE = -1


class DeleteRecords:
    def __init__(self, services: Services, workshop: Workshop) -> None:
        self._services, self._workshop = services, workshop

    async def delete(self, request: DeleteRecordsRequest, caller: Caller) -> DeleteRecordsResponse:
        topics = [self._topic(topic, request.timeout_ms) for topic in request.topics]
        return DeleteRecordsResponse(topics=await asyncio.gather(*topics))

    async def _topic(self, asked: DeleteRecordsTopic, timeout_ms: int) -> DeleteRecordsTopicResult:
        each = [self._partition(asked.name, one, timeout_ms) for one in asked.partitions]
        return DeleteRecordsTopicResult(name=asked.name, partitions=await asyncio.gather(*each))

    async def _partition(
        self, name: str, asked: DeleteRecordsPartition, timeout_ms: int
    ) -> DeleteRecordsPartitionResult:
        number = asked.partition_index
        try:
            start = await self._workshop.within(timeout_ms, self._trim(name, number, asked.offset))
        except StrataError as error:
            return DeleteRecordsPartitionResult(
                partition_index=number, low_watermark=NOWHERE, error_code=failure(error).code
            )
        return DeleteRecordsPartitionResult(partition_index=number, low_watermark=start)

    async def _trim(self, name: str, partition: int, offset: int) -> Offset:
        services = self._services
        topic = services.broker_cache.topic(name)
        lead(services, topic, partition)
        if not topic.config.deletes:
            raise Refused(ErrorCode.POLICY_VIOLATION, "only compaction deletes from this topic")
        start, committed, _ = await services.drivers.offsets(name, partition)
        if offset == HIGH_WATERMARK:
            offset = committed
        if not 0 <= offset <= committed:
            raise OffsetOutOfRange(name, offset, start, committed)
        return await services.drivers.trim(name, partition, Offset(offset))
