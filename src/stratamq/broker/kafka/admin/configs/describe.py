"""DescribeConfigs and ListConfigResources."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from stratamq.broker.kafka import cluster
from stratamq.broker.kafka.admin.configs.entries import (
    ConfigEntry,
    ConfigResourceType,
    broker_entries,
    every_broker_entries,
    group_entries,
    topic_entries,
)
from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import Refused, api_error, code_of
from stratamq.broker.kafka.groups.limits import GroupConfigs
from stratamq.broker.kafka.turns import paced, paced_sorted
from stratamq.model.errors import AnswerTooLarge, StrataError
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

ALL_KINDS_SINCE = 1

Lookup = tuple[Hashable, Callable[[], list[ConfigEntry]]]
"""A key that resources with the same configs share, and how to list their configs."""

Described = dict[Hashable, tuple[Sequence[DescribeConfigsResourceResult], int]]
"""Configs as they are answered, with their size. Resources that have the same share them."""


class DescribeConfigs:
    def __init__(self, services: Services, groups: GroupConfigs) -> None:
        self._services, self._groups = services, groups
        self._resources_by_type: Mapping[int, Callable[[str], Lookup]] = {
            ConfigResourceType.TOPIC: self._of_topic,
            ConfigResourceType.BROKER: self._of_broker,
            ConfigResourceType.GROUP: self._of_group,
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
        lookup = self._resources_by_type.get(asked.resource_type)
        if lookup is None:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"resources of type {asked.resource_type} have no config"
            )
        given, entries = lookup(asked.resource_name)
        chosen = asked.configuration_keys
        key = (asked.resource_type, given, None if chosen is None else tuple(chosen))
        if key not in described:
            configs = [
                _described(entry, request)
                for entry in entries()
                if chosen is None or entry.name in chosen
            ]
            described[key] = configs, sum(map(_size_bytes, configs))
        return described[key]

    def _of_topic(self, name: str) -> Lookup:
        config = self._services.broker_cache.topic(name).config
        return tuple(sorted(config.given.items())), lambda: topic_entries(
            config, self._services.config
        )

    def _of_broker(self, name: str) -> Lookup:
        """The empty name stands for what was altered for all brokers."""
        if name:
            if name != str(self._services.node_id):
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"this is node {self._services.node_id}; node {name!r} has to be asked itself",
                )
            return name, lambda: self._of_this_broker(name)
        return name, lambda: every_broker_entries(self._services.config)

    def _of_this_broker(self, name: str) -> list[ConfigEntry]:
        mine = [
            one
            for one in cluster.brokers(self._services.meta.state)
            if one.node_id == self._services.node_id
        ]
        config = self._services.config
        listener = "SSL" if config.text("kafka.tls.certificate") else "PLAINTEXT"
        if config.text("sasl.enabled.mechanisms"):
            listener = f"SASL_{listener}"
        computed = [("broker.id", name)]
        computed += [("advertised.listeners", f"{listener}://{m.host}:{m.port}") for m in mine]
        computed += [("listeners", f"{listener}://{config.text('host')}:{m.port}") for m in mine]
        return broker_entries(config, computed)

    def _of_group(self, name: str) -> Lookup:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "a group has a name")
        config = self._groups.config(name)
        return tuple(sorted(config.given.items())), lambda: group_entries(
            config, self._services.config
        )

    # -- ListConfigResources -------------------------------------------------------------------

    async def resources(
        self, request: ListConfigResourcesRequest, caller: Caller
    ) -> ListConfigResourcesResponse:
        """Before version 1 only of client metrics, of which there are none."""
        if caller.version < ALL_KINDS_SINCE:
            return ListConfigResourcesResponse(config_resources=[])
        wanted = set(request.resource_types) or set(ConfigResourceType)
        if not wanted <= set(ConfigResourceType):
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
            ConfigResourceType.TOPIC: topics,
            ConfigResourceType.BROKER: nodes,
            ConfigResourceType.GROUP: self._groups.names(),
        }
        size_bytes = sum(map(len, found.values())) * RESOURCE_BYTES
        await self._services.answers.begin().add(size_bytes)
        return [
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, names in found.items()
            if kind in kinds
            async for name in paced_sorted(names)
        ]


def _described(
    entry: ConfigEntry, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
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
