"""CreateTopics: checked as a whole first, so that `validate_only` is the same without the deed."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from stratamq.adapter.shards import Placement
from stratamq.adapter.topics import TopicManager
from stratamq.broker.kafka.admin.assignments import by_partition, placement
from stratamq.broker.kafka.admin.config_entries import topic_entries
from stratamq.broker.kafka.admin.deadline import Workshop
from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.cluster import uuid_of
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import LATE, ApiError, Refused, api_error, duplicate, duplicates
from stratamq.meta.names import check_topic_name
from stratamq.model.config import NodeConfig
from stratamq.model.errors import AlreadyExists, InvalidConfig, InvalidName, StrataError
from stratamq.model.topic import TopicConfig
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

ENTRY_BYTES = 15
"""What one takes encoded, beside its texts."""

DEFAULT = -1
"""As many partitions or replicas as the node gives to topics that do not say."""


class Wanted(NamedTuple):
    """A topic that may be made as it stands here."""

    name: str
    partitions: int
    replicas: int
    given: dict[str, object]
    config: TopicConfig
    placement: Placement | None


class CreateTopics:
    def __init__(self, services: Services, workshop: Workshop) -> None:
        self._services, self._workshop = services, workshop
        self._topics: TopicManager = services.topics

    async def create(self, request: CreateTopicsRequest, caller: Caller) -> CreateTopicsResponse:
        doubled = duplicates(topic.name for topic in request.topics)
        each = {topic.name: topic for topic in request.topics}
        configs = Configs(self._services.config, self._services.answers.begin())

        async def topic(asked: CreatableTopic) -> CreatableTopicResult:
            return await self._topic(asked, asked.name in doubled, request.validate_only, configs)

        answers = await self._workshop.each(
            list(each.values()), topic, request.timeout_ms, lambda asked: _failed(asked, LATE)
        )
        return CreateTopicsResponse(topics=answers)

    async def _topic(
        self, asked: CreatableTopic, doubled: bool, validate_only: bool, configs: Configs
    ) -> CreatableTopicResult:
        try:
            if doubled:
                raise duplicate(asked.name)
            wanted = self._checked(asked)
            told = await configs.of(wanted.config)  # before it is made: no answer is no topic
            return _made(wanted, NO_UUID if validate_only else await self._create(wanted), told)
        except StrataError as error:
            return _failed(asked, api_error(error))

    async def _create(self, wanted: Wanted) -> bytes:
        topic = await self._topics.create(
            wanted.name,
            partitions=wanted.partitions,
            replicas=wanted.replicas,
            config=wanted.given,
            placement=wanted.placement,
        )
        return uuid_of(topic)

    # -- checking ------------------------------------------------------------------------------

    def _checked(self, asked: CreatableTopic) -> Wanted:
        self._check_name(asked.name)
        placed = self._placed(asked) if asked.assignments else None
        given = _configs(asked)
        return Wanted(
            name=asked.name,
            partitions=self._partitions(asked.num_partitions) if placed is None else len(placed),
            replicas=self._replicas(asked) if placed is None else len(placed[0]),
            given=given,
            config=self._topics.config_of(given),
            placement=placed,
        )

    def _check_name(self, name: str) -> None:
        check_topic_name(name)
        like = self._services.meta.state.topic_like(name)
        if like is None:
            return
        if like.topic.name != name:
            raise InvalidName(f"topic {name!r} collides with {like.topic.name!r}")
        raise AlreadyExists(f"topic {name!r} exists")

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

    def _placed(self, asked: CreatableTopic) -> Placement:
        if (asked.num_partitions, asked.replication_factor) != (DEFAULT, DEFAULT):
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                "with replicas placed by hand, partitions and replication factor must be -1",
            )
        given = by_partition([(one.partition_index, one.broker_ids) for one in asked.assignments])
        return placement(given, self._services.meta.state.live_nodes(), len(given[0]))


class Configs:
    """The configs of new topics, as one answer lists them. Most of them have the same."""

    def __init__(self, node: NodeConfig, answer: LongAnswer) -> None:
        self._node, self._answer = node, answer
        self._known: dict[Hashable, list[CreatableTopicConfigs]] = {}

    async def of(self, config: TopicConfig) -> list[CreatableTopicConfigs]:
        """AnswerTooLarge: the answer has no place for another topic."""
        key = tuple(sorted(config.given.items()))
        if key not in self._known:
            self._known[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.sensitive,
                )
                for entry in topic_entries(config, self._node)
            ]
        configs = self._known[key]
        texts = sum(len(one.name) + len(one.value or "") for one in configs)
        await self._answer.add(texts + len(configs) * ENTRY_BYTES)
        return configs


def _made(
    wanted: Wanted, topic_id: bytes, configs: list[CreatableTopicConfigs]
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic_id,
        num_partitions=wanted.partitions,
        replication_factor=wanted.replicas,
        configs=configs,
    )


def _failed(asked: CreatableTopic, why: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=asked.name, error_code=why.code, error_message=why.message)


def _configs(asked: CreatableTopic) -> dict[str, object]:
    for one in asked.configs:
        if one.value is None:
            raise InvalidConfig(f"{one.name}: a value is missing")
    return {one.name: one.value for one in asked.configs}
