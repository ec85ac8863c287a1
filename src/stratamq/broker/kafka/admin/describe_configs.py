"""DescribeConfigs and ListConfigResources."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from stratamq.broker.kafka import cluster
from stratamq.broker.kafka.admin.config_entries import (
    Entry,
    broker_entries,
    every_broker_entries,
    group_entries,
    topic_entries,
)
from stratamq.broker.kafka.admin.kinds import Resource
from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import Refused, api_error, code_of
from stratamq.broker.kafka.groups.configs import GroupConfigs
from stratamq.broker.kafka.turns import paced, paced_sorted
from stratamq.model.config import NodeConfig
from stratamq.model.errors import AnswerTooLarge, StrataError
from stratamq.model.settings.setting import Value
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

RESOURCE_BYTES = 200
ENTRY_BYTES = 60
SYNONYM_BYTES = 30
"""What they take encoded, beside their texts."""

_ALL_KINDS_SINCE = 1

Look = tuple[Hashable, Callable[[], list[Entry]]]
"""What tells a resource's configs from those of others of its type, and how to make them."""

Described = dict[Hashable, tuple[Sequence[DescribeConfigsResourceResult], int]]
"""Configs as they are answered, with their size. Resources that have the same share them."""


class DescribeConfigs:
    def __init__(self, services: Services, groups: GroupConfigs) -> None:
        self._services, self._groups = services, groups
        self._resources_by_type: Mapping[int, Callable[[str], Look]] = {
            Resource.TOPIC: self._of_topic,
            Resource.BROKER: self._of_broker,
            Resource.GROUP: self._of_group,
        }

    async def describe(
        self, request: DescribeConfigsRequest, caller: Caller
    ) -> DescribeConfigsResponse:
        answer, described = self._services.answers.begin(), Described()
        results = [
            await self._resource(one, request, answer, described)
            async for one in paced(request.resources)
        ]
        return DescribeConfigsResponse(results=results)

    async def _resource(
        self,
        asked: DescribeConfigsResource,
        request: DescribeConfigsRequest,
        answer: LongAnswer,
        described: Described,
    ) -> DescribeConfigsResult:
        code, message = ErrorCode.NONE, None
        configs: Sequence[DescribeConfigsResourceResult] = []
        try:
            configs, size_bytes = self._configs(asked, request, described)
            await answer.add(RESOURCE_BYTES + size_bytes)
        except StrataError as error:
            code, message = api_error(error)
            configs = []
        return DescribeConfigsResult(
            error_code=code,
            error_message=message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=configs,
        )

    def _configs(
        self, asked: DescribeConfigsResource, request: DescribeConfigsRequest, described: Described
    ) -> tuple[Sequence[DescribeConfigsResourceResult], int]:
        look = self._resources_by_type.get(asked.resource_type)
        if look is None:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"resources of type {asked.resource_type} have no config"
            )
        own, entries = look(asked.resource_name)
        chosen = asked.configuration_keys
        key = (asked.resource_type, own, None if chosen is None else tuple(chosen))
        if key not in described:
            configs = [_told(entry, request) for entry in _chosen(entries(), chosen)]
            described[key] = configs, sum(map(_size_bytes, configs))
        return described[key]

    def _of_topic(self, name: str) -> Look:
        config = self._services.broker_cache.topic(name).config
        return _own(config.given), lambda: topic_entries(config, self._services.config)

    def _of_broker(self, name: str) -> Look:
        """The empty name stands for what was altered for all brokers."""
        if name:
            check_broker(name, self._services)
            return name, lambda: self._of_this_broker(name)
        return name, lambda: every_broker_entries(self._services.config)

    def _of_this_broker(self, name: str) -> list[Entry]:
        mine = [
            one
            for one in cluster.brokers(self._services.meta.state)
            if one.node_id == self._services.node_id
        ]
        config = self._services.config
        listener = _protocol(config)
        computed = [("broker.id", name)]
        computed += [("advertised.listeners", f"{listener}://{m.host}:{m.port}") for m in mine]
        computed += [("listeners", f"{listener}://{config.text('host')}:{m.port}") for m in mine]
        return broker_entries(config, computed)

    def _of_group(self, name: str) -> Look:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "a group has a name")
        config = self._groups.config(name)
        return _own(config.given), lambda: group_entries(config, self._services.config)

    # -- what there is -------------------------------------------------------------------------

    async def resources(
        self, request: ListConfigResourcesRequest, caller: Caller
    ) -> ListConfigResourcesResponse:
        """Before version 1 only of client metrics, of which there are none."""
        if caller.version < _ALL_KINDS_SINCE:
            return ListConfigResourcesResponse(config_resources=[])
        wanted = set(request.resource_types) or set(Resource)
        if not wanted <= set(Resource):
            return ListConfigResourcesResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[]
            )
        try:
            return ListConfigResourcesResponse(config_resources=await self._resources(wanted))
        except AnswerTooLarge as error:
            return ListConfigResourcesResponse(error_code=code_of(error), config_resources=[])

    async def _resources(self, kinds: set[int]) -> list[ConfigResource]:
        """Of groups, those with configs of their own; there are neither loggers nor metrics."""
        topics = [topic.name for topic in self._services.broker_cache.topics()]
        nodes = [str(node) for node in self._services.meta.state.live_nodes()]
        found = {
            Resource.TOPIC: topics,
            Resource.BROKER: nodes,
            Resource.GROUP: self._groups.names(),
        }
        size_bytes = sum(map(len, found.values())) * RESOURCE_BYTES
        await self._services.answers.begin().add(size_bytes)
        return [
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, names in found.items()
            if kind in kinds
            async for name in paced_sorted(names)
        ]


def _protocol(config: NodeConfig) -> str:
    """What Kafka calls the way in which clients connect."""
    encrypted = "SSL" if config.text("kafka.tls.certificate") else "PLAINTEXT"
    return f"SASL_{encrypted}" if config.text("sasl.enabled.mechanisms") else encrypted


def check_broker(name: str, services: Services) -> None:
    if name != str(services.node_id):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"this is node {services.node_id}; node {name!r} has to be asked itself",
        )


def _own(given: Mapping[str, Value]) -> Hashable:
    """What a resource was given; one that was given the same has the same configs."""
    return tuple(sorted(given.items()))


def _chosen(entries: list[Entry], names: Sequence[str] | None) -> list[Entry]:
    """Null stands for all of them."""
    return entries if names is None else [entry for entry in entries if entry.name in names]


def _told(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=one.name, value=one.value, source=one.origin)
            for one in synonyms
        ],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )


def _size_bytes(config: DescribeConfigsResourceResult) -> int:
    texts = (config.name, config.value, config.documentation)
    size_bytes = ENTRY_BYTES + sum(len(text) for text in texts if text is not None)
    for one in config.synonyms:
        size_bytes += SYNONYM_BYTES + len(one.name) + len(one.value or "")
    return size_bytes
