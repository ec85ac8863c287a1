"""DeleteRecords: everything before an offset goes."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.broker.kafka.admin.deadline import Workshop
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import LATE, ApiError, Refused, api_error
from stratamq.model.errors import OffsetOutOfRange, StrataError
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
NOWHERE = -1


class Wanted(NamedTuple):
    topic: str
    partition: DeleteRecordsPartition


class DeleteRecords:
    def __init__(self, services: Services, workshop: Workshop) -> None:
        self._services, self._workshop = services, workshop

    async def delete(self, request: DeleteRecordsRequest, caller: Caller) -> DeleteRecordsResponse:
        """As in Kafka, the leader deletes first and then waits `timeout_ms` for the replicas. Here
        is no replica to wait for yet, so the answer never is that it took too long."""
        wanted = [Wanted(topic.name, one) for topic in request.topics for one in topic.partitions]
        answers = await self._workshop.each(
            wanted, self._partition, None, lambda one: _failed(one, LATE)
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

    async def _partition(self, wanted: Wanted) -> DeleteRecordsPartitionResult:
        number = wanted.partition.partition_index
        try:
            start = await self._trim(wanted.topic, number, wanted.partition.offset)
        except StrataError as error:
            return _failed(wanted, api_error(error))
        return DeleteRecordsPartitionResult(partition_index=number, low_watermark=start)

    async def _trim(self, name: str, partition: int, offset: int) -> Offset:
        services = self._services
        shard, _ = await services.partitions.led(name, partition)
        config = services.broker_cache.topic(name).config
        if config.compacts and not config.deletes:
            raise Refused(ErrorCode.POLICY_VIOLATION, "only compaction deletes from this topic")
        start, committed, _ = shard.offsets()
        if offset == HIGH_WATERMARK:
            offset = committed
        if not 0 <= offset <= committed:
            raise OffsetOutOfRange(name, offset, start, committed)
        return await services.drivers.trim(name, partition, Offset(offset))


def _failed(wanted: Wanted, why: ApiError) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition.partition_index,
        low_watermark=NOWHERE,
        error_code=why.code,
    )
