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
from stratamq.broker.kafka.contract import Answered, Caller, Handled, Services
from stratamq.broker.kafka.produce_answers import Begun, Ready, refusal, response_of, stored_at
from stratamq.broker.kafka.topics import Refused, active, find, lead
from stratamq.engine.acks import Acks
from stratamq.model.errors import StrataError
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from stratamq.wire.kafka.records import BatchHeader
from stratamq.wire.kafka.records.layout import TRANSACTIONAL_BIT

ACKS: Mapping[int, Acks | None] = {0: Acks.NONE, 1: Acks.LEADER, -1: None}
"""None is what the topic's `commit.policy` says."""

BEGUN_ACKS = (1, -1)

RULES_MAX = 10_000
"""Remembered rules of topics. Met: all are forgotten and made again."""


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
        self._rules: dict[str, rules.Rules] = {}

    def handlers(self) -> Mapping[type, Handled]:
        return {ProduceRequest: Handled(self.produce, beginner=self.begin)}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    # -- the short way: no coroutine -----------------------------------------------------------

    def begin(self, request: ProduceRequest, caller: Caller, answered: Answered) -> bool:
        """Batches that nobody has to be asked about are with the engine when this returns."""
        if request.acks not in BEGUN_ACKS or request.transactional_id is not None:
            return False
        ready: list[Ready | PartitionProduceResponse] = []
        for wanted in request.topic_data:
            for partition in wanted.partition_data:
                one = self._ready(wanted, partition, request.acks, caller.version)
                if one is None:
                    return False
                ready.append(one)
        Begun(request, len(ready), answered).begin(ready)
        return True

    def _ready(
        self, wanted: TopicProduceData, partition: PartitionProduceData, acks: int, version: int
    ) -> Ready | PartitionProduceResponse | None:
        """How to begin it, or why it is refused; None where it takes the long way."""
        try:
            topic, header, data = self._checked(wanted, partition, acks, version)
            if header.attributes & TRANSACTIONAL_BIT:
                return None
            append = self._services.drivers.appender(topic, partition.index)
            return None if append is None else Ready(append, partition, data)
        except StrataError as error:
            return refusal(partition, error)

    # -- the long way --------------------------------------------------------------------------

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
        return response_of(request, [await write])

    async def _answer(
        self, request: ProduceRequest, writes: Sequence[Awaitable[PartitionProduceResponse]]
    ) -> ProduceResponse | None:
        return response_of(request, await asyncio.gather(*writes))

    async def _write(
        self,
        wanted: TopicProduceData,
        partition: PartitionProduceData,
        request: ProduceRequest,
        version: int,
    ) -> PartitionProduceResponse:
        try:
            topic, header, data = self._checked(wanted, partition, request.acks, version)
            if self._verifier is not None and header.is_transactional:
                shard = shard_name(topic.topic_id, partition.index)
                await self._verifier.admit(request.transactional_id, shard, header, version)
            acks = ACKS[request.acks]
            stored = await self._services.drivers.append_batch(
                topic.name, partition.index, data, acks=acks
            )
            return stored_at(partition.index, stored)
        except StrataError as error:
            return refusal(partition, error)

    # -- both ----------------------------------------------------------------------------------

    def _checked(
        self, wanted: TopicProduceData, partition: PartitionProduceData, acks: int, version: int
    ) -> tuple[Topic, BatchHeader, Buffer]:
        """The topic, and the batch as the topic wants it, or a refusal."""
        if acks not in ACKS:
            raise Refused(ErrorCode.INVALID_REQUIRED_ACKS)
        topic = find(self._services.broker_cache, wanted.name, wanted.topic_id)
        lead(self._services, topic, partition.index)
        header, data = batches.checked(partition.records, version)
        return topic, header, self._by_the_rules(topic, partition.index, acks, header, data)

    def _by_the_rules(
        self, topic: Topic, partition: int, acks: int, header: BatchHeader, data: Buffer
    ) -> Buffer:
        """The batch as the topic wants it, or a refusal."""
        services, held_to = self._services, self._rules_of(topic)
        if rules.needs_replicas(held_to, acks):
            rules.check_replicas(held_to, active(services, topic, partition))
        rules.check_timestamps(held_to, header, data, services.clock.now_ms())
        return rules.compressed(held_to, header, data, self._decompressed_max)

    def _rules_of(self, topic: Topic) -> rules.Rules:
        """Taken apart once; a topic that is configured anew has another config."""
        known = self._rules.get(topic.name)
        if known is None or known.config is not topic.config:
            if len(self._rules) >= RULES_MAX:
                self._rules.clear()
            known = self._rules[topic.name] = rules.rules_of(topic.config)
        return known
