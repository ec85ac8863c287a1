"""Metadata, DescribeTopicPartitions and DescribeCluster: what clients see of brokers, topics and
partitions. A topic may be created by being asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.cluster import (
    all_brokers,
    brokers,
    controller,
    find_topic,
    partition_state,
    uuid_of,
)
from stratamq.broker.kafka.contract import Caller, Family, Handled, Services
from stratamq.broker.kafka.errors import Refused, code_of
from stratamq.broker.kafka.turns import paced, paced_sorted
from stratamq.meta.topics import check_topic_name
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
    Cursor,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

CREATIONS_AT_ONCE = 8
"""Topics that are created because a client asked for them; the others wait."""

TOPIC_BYTES = 400
PARTITION_BYTES = 200
"""About what they take in an answer, first as objects and then encoded."""

PAGE_MAX = 2000
"""Partitions in one answer to DescribeTopicPartitions, whatever limit the client asks for. A topic
without any counts as one."""

NULL_NAME_SINCE = 12

BROKERS, CONTROLLERS = 1, 2
"""Kinds of endpoints that DescribeCluster may be asked for."""


Created = Callable[[Caller, str], None]
"""Takes who asked for a topic that was created because of it, and its name."""


class Metadata(Family):
    def __init__(
        self, services: Services, cluster_id: str, created: Created = lambda caller, name: None
    ) -> None:
        self._services, self._created = services, created
        self._cluster_id = cluster_id
        self._creations = asyncio.Semaphore(CREATIONS_AT_ONCE)

    def handlers(self) -> Mapping[type, Handled]:
        return {
            MetadataRequest: Handled(self.metadata),
            DescribeTopicPartitionsRequest: Handled(self.topic_partitions),
            DescribeClusterRequest: Handled(self.cluster),
        }

    # -- Metadata ------------------------------------------------------------------------------

    async def metadata(self, request: MetadataRequest, caller: Caller) -> MetadataResponse:
        state, answer = self._services.meta.state, self._services.answers.begin()
        if request.topics is None or (caller.version == 0 and not request.topics):
            each = self._services.broker_cache.topics()
            topics = [await self._listed(topic, answer) async for topic in paced(each)]
        else:
            creates = self._services.config.flag("auto.create.topics.enable")
            create = creates and request.allow_auto_topic_creation
            topics = [
                await self._topic(asked, create, caller, answer)
                async for asked in paced(request.topics)
            ]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host=host, port=port)
                for node, host, port in brokers(state)
            ],
            cluster_id=self._cluster_id,
            controller_id=controller(state),
            topics=topics,
        )

    async def _listed(self, topic: Topic, answer: LongAnswer) -> MetadataResponseTopic:
        try:
            return await self._described(topic, answer)
        except AnswerTooLarge as error:
            return MetadataResponseTopic(
                error_code=code_of(error), name=topic.name, topic_id=uuid_of(topic), partitions=[]
            )

    async def _topic(
        self, asked: MetadataRequestTopic, create: bool, caller: Caller, answer: LongAnswer
    ) -> MetadataResponseTopic:
        name = asked.name or ""
        try:
            return await self._described(await self._found(asked, create, caller), answer)
        except StrataError as error:
            unnamed = asked.name is None and caller.version >= NULL_NAME_SINCE
            return MetadataResponseTopic(
                error_code=code_of(error),
                name=None if unnamed else name,
                topic_id=asked.topic_id,
                partitions=[],
            )

    async def _found(self, asked: MetadataRequestTopic, create: bool, caller: Caller) -> Topic:
        services, cache, name = self._services, self._services.broker_cache, asked.name or ""
        try:
            return find_topic(cache, name, asked.topic_id)
        except TopicNotFound:
            check_topic_name(name)
            if not create:
                raise
        async with self._creations:
            try:
                topic = await services.topics.create(
                    name,
                    partitions=services.config.number("num.partitions"),
                    replicas=services.config.number("default.replication.factor"),
                )
            except AlreadyExists:
                pass
            else:
                self._created(caller, name)
                return topic
        # Another request has created it, is about to, or has a topic whose name collides with it.
        like = services.meta.state.topic_like(name)
        if like is not None and like.topic.name != name:
            raise InvalidName(f"topic {name!r} collides with {like.topic.name!r}")
        try:
            return cache.topic(name)
        except TopicNotFound:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE) from None

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

    # -- DescribeTopicPartitions: page by page, so that no answer is larger than its reader -----

    async def topic_partitions(
        self, request: DescribeTopicPartitionsRequest, caller: Caller
    ) -> DescribeTopicPartitionsResponse:
        left = max(1, min(request.response_partition_limit, PAGE_MAX))
        topics: list[DescribeTopicPartitionsResponseTopic] = []
        answer = DescribeTopicPartitionsResponse(topics=topics)
        async for name, first in self._from_cursor(request):
            if left <= 0:
                answer.next_cursor = Cursor(topic_name=name, partition_index=first)
                break
            described, rest = self._page(name, first, left)
            topics.append(described)
            left -= max(len(described.partitions), 1)  # an unknown topic counts, too
            if rest is not None:
                answer.next_cursor = Cursor(topic_name=name, partition_index=rest)
                break
        return answer

    async def _from_cursor(
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

    def _page(
        self, name: str, first: int, limit: int
    ) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
        """Partitions of a topic, and the one to go on with unless it is at its end."""
        try:
            topic = self._services.broker_cache.topic(name)
        except StrataError as error:
            unknown = DescribeTopicPartitionsResponseTopic(
                error_code=code_of(error), name=name, topic_id=NO_UUID, partitions=[]
            )
            return unknown, None
        end = min(topic.partitions, first + limit)
        described = DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=uuid_of(topic),
            partitions=[self._paged_partition(topic, number) for number in range(first, end)],
        )
        return described, end if end < topic.partitions else None

    def _paged_partition(
        self, topic: Topic, number: int
    ) -> DescribeTopicPartitionsResponsePartition:
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

    # -- DescribeCluster -----------------------------------------------------------------------

    async def cluster(
        self, request: DescribeClusterRequest, caller: Caller
    ) -> DescribeClusterResponse:
        """Controllers have no addresses of their own here."""
        if request.endpoint_type != BROKERS:
            known = request.endpoint_type == CONTROLLERS
            code = (
                ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            )
            return DescribeClusterResponse(
                error_code=code,
                error_message=code.text,
                endpoint_type=request.endpoint_type,
                cluster_id=self._cluster_id,
                brokers=[],
            )
        state = self._services.meta.state
        nodes = all_brokers(state) if request.include_fenced_brokers else brokers(state)
        return DescribeClusterResponse(
            cluster_id=self._cluster_id,
            controller_id=controller(state),
            brokers=[
                DescribeClusterBroker(
                    broker_id=node, host=host, port=port, is_fenced=not state.nodes[node].live
                )
                for node, host, port in nodes
            ],
        )
