"""CreateTopics and CreatePartitions. A request is checked as a whole first, so that `validate_only`
is the same without the creation."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

from stratamq.adapter.shards import Placement
from stratamq.broker.kafka.admin.configs.entries import topic_entries
from stratamq.broker.kafka.admin.task_pool import TaskPool
from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.cluster import uuid_of
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import LATE, ApiError, Refused, api_error, duplicate, duplicates
from stratamq.meta.topics import check_topic_name
from stratamq.model.config import NodeConfig
from stratamq.model.errors import AlreadyExists, InvalidConfig, InvalidName, StrataError
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import NodeId
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

ENTRY_BYTES = 15
"""What a config takes encoded, beside its texts."""

DEFAULT = -1
"""As many partitions or replicas as the node gives to topics that do not say."""


# -- replicas placed by hand -----------------------------------------------------------------------


def by_partition(given: Sequence[tuple[int, Sequence[int]]]) -> list[Sequence[int]]:
    """The replicas of partitions 0, 1, 2, ..., in whatever order they were given."""
    ordered = sorted(given, key=lambda one: one[0])
    if [index for index, _ in ordered] != list(range(len(ordered))):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions must be numbered 0, 1, 2, ... without a hole",
        )
    return [nodes for _, nodes in ordered]


def placement(given: Sequence[Sequence[int]], live: Collection[NodeId], replicas: int) -> Placement:
    """Each partition's nodes, checked. `replicas` is how many each must have."""
    placed = [tuple(NodeId(node) for node in nodes) for nodes in given]
    for nodes in placed:
        if not nodes:
            why = "a partition needs at least one replica"
        elif len(set(nodes)) != len(nodes):
            why = f"replicas {list(nodes)} are not distinct nodes"
        elif strangers := sorted(set(nodes) - set(live)):
            why = f"there is no live node {strangers[0]}"
        elif len(nodes) != replicas:
            why = f"replicas {list(nodes)} are not {replicas}, as the other partitions have"
        else:
            continue
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return placed


# -- CreateTopics ----------------------------------------------------------------------------------


class NewTopic(NamedTuple):
    """A topic that passed all checks."""

    name: str
    partitions: int
    replicas: int
    given: dict[str, object]
    config: TopicConfig
    placement: Placement | None


class CreateTopics:
    def __init__(self, services: Services, tasks: TaskPool) -> None:
        self._services, self._tasks = services, tasks

    async def create(self, request: CreateTopicsRequest, caller: Caller) -> CreateTopicsResponse:
        doubled = duplicates(topic.name for topic in request.topics)
        each = {topic.name: topic for topic in request.topics}
        configs = NewTopicConfigs(self._services.config, self._services.answers.begin())

        async def topic(asked: CreatableTopic) -> CreatableTopicResult:
            return await self._topic(asked, asked.name in doubled, request.validate_only, configs)

        answers = await self._tasks.each(
            list(each.values()),
            topic,
            request.timeout_ms,
            lambda asked: self._failed(asked, LATE),
            self._shards,  # many small topics are created together, and share their syncs
        )
        return CreateTopicsResponse(topics=answers)

    def _shards(self, asked: CreatableTopic) -> int:
        if asked.num_partitions == DEFAULT and not asked.assignments:
            return self._services.config.number("num.partitions")
        return max(asked.num_partitions, len(asked.assignments))

    async def _topic(
        self, asked: CreatableTopic, doubled: bool, validate_only: bool, configs: NewTopicConfigs
    ) -> CreatableTopicResult:
        topic_id = NO_UUID
        try:
            if doubled:
                raise duplicate(asked.name)
            new = self._checked(asked)
            # Before the topic is created: one whose answer does not fit is refused.
            answered = await configs.of(new.config)
            if not validate_only:
                topic = await self._services.topics.create(
                    new.name,
                    partitions=new.partitions,
                    replicas=new.replicas,
                    config=new.given,
                    placement=new.placement,
                )
                topic_id = uuid_of(topic)
        except StrataError as error:
            return self._failed(asked, api_error(error))
        return CreatableTopicResult(
            name=new.name,
            topic_id=topic_id,
            num_partitions=new.partitions,
            replication_factor=new.replicas,
            configs=answered,
        )

    def _failed(self, asked: CreatableTopic, why: ApiError) -> CreatableTopicResult:
        return CreatableTopicResult(name=asked.name, error_code=why.code, error_message=why.message)

    # -- checking ------------------------------------------------------------------------------

    def _checked(self, asked: CreatableTopic) -> NewTopic:
        check_topic_name(asked.name)
        like = self._services.meta.state.topic_like(asked.name)
        if like is not None and like.topic.name != asked.name:
            raise InvalidName(f"topic {asked.name!r} collides with {like.topic.name!r}")
        if like is not None:
            raise AlreadyExists(f"topic {asked.name!r} exists")
        placed = self._placement(asked) if asked.assignments else None
        for one in asked.configs:
            if one.value is None:
                raise InvalidConfig(f"{one.name}: a value is missing")
        given: dict[str, object] = {one.name: one.value for one in asked.configs}
        return NewTopic(
            name=asked.name,
            partitions=self._partitions(asked.num_partitions) if placed is None else len(placed),
            replicas=self._replicas(asked) if placed is None else len(placed[0]),
            given=given,
            config=self._services.topics.config_of(given),
            placement=placed,
        )

    def _partitions(self, asked: int) -> int:
        config = self._services.config
        if asked == DEFAULT:
            return config.number("num.partitions")
        most = config.number("meta.partitions.per.topic.max")
        if not 1 <= asked <= most:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS, f"a topic has 1 to {most} partitions, not {asked}"
            )
        return asked

    def _replicas(self, asked: CreatableTopic) -> int:
        replicas, live = asked.replication_factor, len(self._services.meta.state.live_nodes())
        if replicas == DEFAULT:
            replicas = self._services.config.number("default.replication.factor")
        if not 1 <= replicas <= live:
            raise Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"{replicas} replicas need as many nodes; {live} alive",
            )
        return replicas

    def _placement(self, asked: CreatableTopic) -> Placement:
        if (asked.num_partitions, asked.replication_factor) != (DEFAULT, DEFAULT):
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "with replicas placed by hand, partitions and replication factor must be -1",
            )
        given = by_partition([(one.partition_index, one.broker_ids) for one in asked.assignments])
        return placement(given, self._services.meta.state.live_nodes(), len(given[0]))


class NewTopicConfigs:
    """The configs of new topics, as one answer lists them. Most of them have the same."""

    def __init__(self, node: NodeConfig, answer: LongAnswer) -> None:
        self._node, self._answer = node, answer
        self._described: dict[Hashable, list[CreatableTopicConfigs]] = {}

    async def of(self, config: TopicConfig) -> list[CreatableTopicConfigs]:
        """AnswerTooLarge: the answer cannot take another topic."""
        key = tuple(sorted(config.given.items()))
        if key not in self._described:
            self._described[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.sensitive,
                )
                for entry in topic_entries(config, self._node)
            ]
        configs = self._described[key]
        texts = sum(len(one.name) + len(one.value or "") for one in configs)
        await self._answer.add(texts + len(configs) * ENTRY_BYTES)
        return configs


# -- CreatePartitions ------------------------------------------------------------------------------


class CreatePartitions:
    """Topics grow, and never shrink."""

    def __init__(self, services: Services, tasks: TaskPool) -> None:
        self._services, self._tasks = services, tasks

    async def create(
        self, request: CreatePartitionsRequest, caller: Caller
    ) -> CreatePartitionsResponse:
        doubled = duplicates(topic.name for topic in request.topics)
        each = {topic.name: topic for topic in request.topics}

        async def topic(asked: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
            return await self._topic(asked, asked.name in doubled, request.validate_only)

        answers = await self._tasks.each(
            list(each.values()), topic, request.timeout_ms, lambda asked: self._failed(asked, LATE)
        )
        return CreatePartitionsResponse(results=answers)

    async def _topic(
        self, asked: CreatePartitionsTopic, doubled: bool, validate_only: bool
    ) -> CreatePartitionsTopicResult:
        try:
            if doubled:
                raise duplicate(asked.name)
            topic = self._services.broker_cache.topic(asked.name)
            most = self._services.config.number("meta.partitions.per.topic.max")
            if not topic.partitions < asked.count <= most:
                raise Refused(
                    ErrorCode.INVALID_PARTITIONS,
                    f"topic {topic.name!r} has {topic.partitions} partitions and can grow to "
                    f"{most}; {asked.count} were asked for",
                )
            placed = self._placement(topic, asked)
            if not validate_only:
                await self._services.topics.add_partitions(
                    topic.name, asked.count, placement=placed
                )
        except StrataError as error:
            return self._failed(asked, api_error(error))
        return CreatePartitionsTopicResult(name=asked.name)

    def _placement(self, topic: Topic, asked: CreatePartitionsTopic) -> Placement | None:
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

    def _failed(self, asked: CreatePartitionsTopic, why: ApiError) -> CreatePartitionsTopicResult:
        return CreatePartitionsTopicResult(
            name=asked.name, error_code=why.code, error_message=why.message
        )
