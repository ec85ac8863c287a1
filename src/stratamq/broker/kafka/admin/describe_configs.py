"""DescribeConfigs and ListConfigResources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from stratamq.broker.kafka import cluster
from stratamq.broker.kafka.admin.answers import failure
from stratamq.broker.kafka.admin.config_entries import (
    Entry,
    broker_entries,
    every_broker_entries,
    group_entries,
    topic_entries,
)
from stratamq.broker.kafka.admin.kinds import Resource
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.groups.configs import GroupConfigs
from stratamq.broker.kafka.topics import Refused
from stratamq.model.config import NodeConfig
from stratamq.model.errors import StrataError
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

RESOURCES_MAX = 10_000
"""Described in one answer. Those after them are refused, each by itself."""

AT_A_STRETCH = 16
_ALL_KINDS_SINCE = 1


class DescribeConfigs:
    def __init__(self, services: Services, groups: GroupConfigs) -> None:
        self._services, self._groups = services, groups
        self._entries: Mapping[int, Callable[[str], list[Entry]]] = {
            Resource.TOPIC: self._of_topic,
            Resource.BROKER: self._of_broker,
            Resource.GROUP: self._of_group,
        }

    async def describe(
        self, request: DescribeConfigsRequest, caller: Caller
    ) -> DescribeConfigsResponse:
        """A resource that is named twice is described once, so that an answer cannot grow without
        bound."""
        each = {(one.resource_type, one.resource_name): one for one in request.resources}
        results = []
        for at, one in enumerate(each.values()):
            results.append(self._resource(one, request, at < RESOURCES_MAX))
            if at % AT_A_STRETCH == 0:
                await asyncio.sleep(0)  # others want to be served too
        return DescribeConfigsResponse(results=results)

    def _resource(
        self, asked: DescribeConfigsResource, request: DescribeConfigsRequest, fits: bool
    ) -> DescribeConfigsResult:
        code, message, entries = ErrorCode.NONE, None, list[Entry]()
        try:
            if not fits:
                raise Refused(ErrorCode.POLICY_VIOLATION, f"over {RESOURCES_MAX} in one request")
            entries = _chosen(self._found(asked), asked.configuration_keys)
        except StrataError as error:
            code, message = failure(error)
        return DescribeConfigsResult(
            error_code=code,
            error_message=message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[_told(entry, request) for entry in entries],
        )

    def _found(self, asked: DescribeConfigsResource) -> list[Entry]:
        entries = self._entries.get(asked.resource_type)
        if entries is None:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"resources of type {asked.resource_type} have no config"
            )
        return entries(asked.resource_name)

    def _of_topic(self, name: str) -> list[Entry]:
        topic = self._services.broker_cache.topic(name)
        return topic_entries(topic.config, self._services.config)

    def _of_broker(self, name: str) -> list[Entry]:
        """The empty name stands for what was altered for all brokers."""
        if not name:
            return every_broker_entries(self._services.config)
        check_broker(name, self._services)
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

    def _of_group(self, name: str) -> list[Entry]:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "a group has a name")
        return group_entries(self._groups.config(name), self._services.config)

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
        return ListConfigResourcesResponse(config_resources=self._resources(wanted))

    def _resources(self, kinds: set[int]) -> list[ConfigResource]:
        """Of groups, those with configs of their own; there are neither loggers nor metrics."""
        topics = [topic.name for topic in self._services.broker_cache.topics()]
        nodes = [str(node) for node in self._services.meta.state.live_nodes()]
        found = {
            Resource.TOPIC: topics,
            Resource.BROKER: nodes,
            Resource.GROUP: self._groups.names(),
        }
        return [
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, names in found.items()
            if kind in kinds
            for name in sorted(names)
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
