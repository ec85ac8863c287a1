"""Metadata: brokers, topics, partitions; and topics that come into being by being asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from stratamq.broker.kafka import cluster
from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.cluster import find_topic, partition_state, uuid_of
from stratamq.broker.kafka.contract import Caller, Family, Handled, Services
from stratamq.broker.kafka.errors import Refused, code_of
from stratamq.broker.kafka.turns import paced
from stratamq.meta.names import check_topic_name
from stratamq.model.errors import (
    AlreadyExists,
    AnswerTooLarge,
    InvalidName,
    StrataError,
    TopicNotFound,
)
from stratamq.model.topic import Topic
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

CREATIONS_AT_ONCE = 8
"""Topics made because somebody asked for them; the others wait."""

TOPIC_BYTES = 400
PARTITION_BYTES = 200
"""About what they take in an answer, first as objects and then encoded."""

_NULL_NAME_SINCE = 12


class Metadata(Family):
    """The family of one API."""

    def __init__(self, services: Services, cluster_id: str) -> None:
        self._services = services
        self._cluster_id = cluster_id
        self._creations = asyncio.Semaphore(CREATIONS_AT_ONCE)

    def handlers(self) -> Mapping[type, Handled]:
        return {MetadataRequest: Handled(self.metadata)}

    async def metadata(self, request: MetadataRequest, caller: Caller) -> MetadataResponse:
        state = self._services.meta.state
        topics = await self._topics(request, caller)
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host=host, port=port)
                for node, host, port in cluster.brokers(state)
            ],
            cluster_id=self._cluster_id,
            controller_id=cluster.controller(state),
            topics=topics,
        )

    async def _topics(
        self, request: MetadataRequest, caller: Caller
    ) -> Sequence[MetadataResponseTopic]:
        answer = self._services.answers.begin()
        if request.topics is None or (caller.version == 0 and not request.topics):
            topics = self._services.broker_cache.topics()
            return [await self._listed(topic, answer) async for topic in paced(topics)]
        creates = self._services.config.flag("auto.create.topics.enable")
        create = creates and request.allow_auto_topic_creation
        return [
            await self._topic(wanted, create, caller, answer)
            async for wanted in paced(request.topics)
        ]

    async def _listed(self, topic: Topic, answer: LongAnswer) -> MetadataResponseTopic:
        try:
            return await self._described(topic, answer)
        except AnswerTooLarge as error:
            return MetadataResponseTopic(
                error_code=code_of(error), name=topic.name, topic_id=uuid_of(topic), partitions=[]
            )

    async def _topic(
        self, wanted: MetadataRequestTopic, create: bool, caller: Caller, answer: LongAnswer
    ) -> MetadataResponseTopic:
        name = wanted.name or ""
        try:
            return await self._described(await self._found(name, wanted.topic_id, create), answer)
        except Refused as refusal:
            code = refusal.code
        except StrataError as error:
            code = code_of(error)
        unnamed = wanted.name is None and caller.version >= _NULL_NAME_SINCE
        return MetadataResponseTopic(
            error_code=code,
            name=None if unnamed else name,
            topic_id=wanted.topic_id,
            partitions=[],
        )

    async def _found(self, name: str, topic_id: bytes, create: bool) -> Topic:
        cache = self._services.broker_cache
        if topic_id != NO_UUID:
            return find_topic(cache, name, topic_id)
        try:
            return cache.topic(name)
        except TopicNotFound:
            check_topic_name(name)
            if not create:
                raise
        return await self._create(name)

    async def _create(self, name: str) -> Topic:
        services = self._services
        async with self._creations:
            try:
                return await services.topics.create(
                    name,
                    partitions=services.config.number("num.partitions"),
                    replicas=services.config.number("default.replication.factor"),
                )
            except AlreadyExists:
                return self._made_by_another(name)

    def _made_by_another(self, name: str) -> Topic:
        """Somebody was faster, is still at it, or has a topic whose name collides with this."""
        state, cache = self._services.meta.state, self._services.broker_cache
        like = state.topic_like(name)
        if like is not None and like.topic.name != name:
            raise InvalidName(f"topic {name!r} collides with {like.topic.name!r}")
        try:
            return cache.topic(name)
        except TopicNotFound:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE) from None

    # -- describing ----------------------------------------------------------------------------

    async def _described(self, topic: Topic, answer: LongAnswer) -> MetadataResponseTopic:
        await answer.add(TOPIC_BYTES + topic.partitions * PARTITION_BYTES)
        numbers = range(topic.partitions)
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=uuid_of(topic),
            partitions=[self._partition(topic, number) async for number in paced(numbers)],
        )

    def _partition(self, topic: Topic, number: int) -> MetadataResponsePartition:
        seen = partition_state(self._services, topic, number)
        return MetadataResponsePartition(
            error_code=seen.error,
            partition_index=number,
            leader_id=seen.leader,
            leader_epoch=seen.epoch,
            replica_nodes=seen.replicas,
            isr_nodes=seen.isr,
            offline_replicas=seen.offline,
        )
