"""Produce: batches go to the log as they came.

The handler hands every batch over before it waits for anything, in the order in which requests
were taken from a connection: that is what keeps a producer's batches in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from stratamq.broker.kafka import batches
from stratamq.broker.kafka import produce_rules as rules
from stratamq.broker.kafka.contract import Caller, Handled, Services
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.topics import Refused, active, find, lead
from stratamq.engine.acks import Acks
from stratamq.model.errors import InvalidRecord, StrataError
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from stratamq.wire.kafka.records import BatchHeader

ACKS: Mapping[int, Acks | None] = {0: Acks.NONE, 1: Acks.LEADER, -1: None}
"""None is what the topic's `commit.policy` says."""

NOWHERE = -1


class Unanswered(StrataError):
    """A write that nobody waits for has failed. All we can do is to close the connection, so that
    the producer looks at its metadata again."""


class Verifier(Protocol):
    """Who knows which transactions are open."""

    async def admit(
        self, transactional_id: str | None, shard: ShardName, header: BatchHeader, version: int
    ) -> None:
        """Refused unless the batch belongs to a transaction that is open and has the shard.

        It must not wait where it need not: batches would overtake each other.
        """


class Produce:
    """The family of one API. Without a `verifier`, transactional batches are taken as they come."""

    def __init__(self, services: Services, verifier: Verifier | None = None) -> None:
        self._services = services
        self._decompressed_max = services.config.number("batch.decompressed.bytes.max")
        self._verifier = verifier

    def handlers(self) -> Mapping[type, Handled]:
        return {ProduceRequest: Handled(self.produce)}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def produce(self, request: ProduceRequest, caller: Caller) -> Awaitable[ProduceResponse | None]:
        """Not a coroutine: what it starts must start now, before the next request's."""
        topics = request.topic_data
        if len(topics) == 1 and len(topics[0].partition_data) == 1:
            only = topics[0]
            write = self._write(only, only.partition_data[0], request, caller.version)
            return self._answer_one(request, write)
        writes = [
            asyncio.ensure_future(self._write(topic, partition, request, caller.version))
            for topic in topics
            for partition in topic.partition_data
        ]
        return self._answer(request, writes)

    async def _answer_one(
        self, request: ProduceRequest, write: Awaitable[PartitionProduceResponse]
    ) -> ProduceResponse | None:
        return _response(request, [await write])

    async def _answer(
        self, request: ProduceRequest, writes: Sequence[Awaitable[PartitionProduceResponse]]
    ) -> ProduceResponse | None:
        return _response(request, await asyncio.gather(*writes))

    async def _write(
        self,
        wanted: TopicProduceData,
        partition: PartitionProduceData,
        request: ProduceRequest,
        version: int,
    ) -> PartitionProduceResponse:
        try:
            if request.acks not in ACKS:
                raise Refused(ErrorCode.INVALID_REQUIRED_ACKS)
            topic = find(self._services.broker_cache, wanted.name, wanted.topic_id)
            lead(self._services, topic, partition.index)
            header, data = batches.checked(partition.records, version)
            data = self._by_the_rules(topic, partition.index, request.acks, header, data)
            if self._verifier is not None and header.is_transactional:
                shard = shard_name(topic.topic_id, partition.index)
                await self._verifier.admit(request.transactional_id, shard, header, version)
            return await self._append(topic, partition.index, data, request)
        except rules.RecordsRefused as error:
            return _rejected(partition.index, error)
        except InvalidRecord as error:
            keyless = batches.without_key(partition.records)
            return _rejected(partition.index, _invalid(str(error), keyless))
        except StrataError as error:
            code = error.code if isinstance(error, Refused) else code_of(error)
            return PartitionProduceResponse(
                index=partition.index,
                error_code=code,
                base_offset=NOWHERE,
                error_message=str(error),
            )

    def _by_the_rules(
        self, topic: Topic, partition: int, acks: int, header: BatchHeader, data: Buffer
    ) -> Buffer:
        """The batch as the topic wants it, or a refusal."""
        services, config = self._services, topic.config
        if rules.needs_replicas(config, acks):
            rules.check_replicas(config, active(services, topic, partition))
        rules.check_timestamps(config, header, data, services.clock.now_ms())
        return rules.compressed(config, header, data, self._decompressed_max)

    async def _append(
        self, topic: Topic, partition: int, data: Buffer, request: ProduceRequest
    ) -> PartitionProduceResponse:
        drivers = self._services.drivers
        stored = await drivers.append_batch(topic.name, partition, data, acks=ACKS[request.acks])
        return PartitionProduceResponse(
            index=partition,
            base_offset=stored.base_offset,
            log_append_time_ms=stored.append_time,
            log_start_offset=stored.log_start,
        )


def _invalid(why: str, keyless: Sequence[int]) -> rules.RecordsRefused:
    told = "a compacted topic needs a key" if keyless else why
    return rules.RecordsRefused(ErrorCode.INVALID_RECORD, told, keyless)


def _rejected(partition: int, error: rules.RecordsRefused) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition,
        error_code=error.code,
        base_offset=NOWHERE,
        error_message=str(error) if error.at_fault else error.why,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=error.why)
            for index in error.at_fault
        ],
    )


def _response(
    request: ProduceRequest, answers: Sequence[PartitionProduceResponse]
) -> ProduceResponse | None:
    if request.acks == 0:
        failed = [answer for answer in answers if answer.error_code]
        if failed:
            raise Unanswered(f"a write with acks=0 failed: {failed[0].error_message}")
        return None
    each = iter(answers)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[next(each) for _ in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
