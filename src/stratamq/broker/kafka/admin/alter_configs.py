"""AlterConfigs and IncrementalAlterConfigs: of topics. A node changes with its restart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stratamq.adapter.topics import ConfigPlan
from stratamq.broker.kafka.admin.answers import failure, named_twice, twice
from stratamq.broker.kafka.admin.config_changes import increment, replacement
from stratamq.broker.kafka.admin.kinds import Resource
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.topics import Refused
from stratamq.model.errors import StrataError
from stratamq.model.topic import Topic
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

_NAMES: dict[int, str] = {kind: kind.name.lower().replace("_", " ") for kind in Resource}
_Asked = AlterConfigsResource | IncrementalAlterConfigsResource


class AlterConfigs:
    """One resource after the other: each is changed whole, or not at all."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def replace(self, request: AlterConfigsRequest, caller: Caller) -> AlterConfigsResponse:
        doubled = _doubled(request.resources)
        return AlterConfigsResponse(
            responses=[
                await self._resource(
                    one, partial(replacement, one.configs), request.validate_only, doubled
                )
                for one in request.resources
            ]
        )

    async def increment(
        self, request: IncrementalAlterConfigsRequest, caller: Caller
    ) -> IncrementalAlterConfigsResponse:
        doubled = _doubled(request.resources)
        return IncrementalAlterConfigsResponse(
            responses=[
                await self._resource(
                    one, partial(increment, one.configs), request.validate_only, doubled
                )
                for one in request.resources
            ]
        )

    async def _resource(
        self, asked: _Asked, plan: ConfigPlan, validate_only: bool, doubled: set[tuple[int, str]]
    ) -> AlterConfigsResourceResponse:
        code, message = ErrorCode.NONE, None
        try:
            if _key(asked) in doubled:
                raise twice(asked.resource_name)
            topic = self._topic(asked)
            await self._change(topic, plan, validate_only)
        except StrataError as error:
            code, message = failure(error)
        return AlterConfigsResourceResponse(
            error_code=code,
            error_message=message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )

    def _topic(self, asked: _Asked) -> Topic:
        if asked.resource_type == Resource.TOPIC:
            return self._services.broker_cache.topic(asked.resource_name)
        kind = _NAMES.get(asked.resource_type, f"resource {asked.resource_type}")
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"configs of a {kind} cannot change while the node runs; topics' can",
        )

    async def _change(self, topic: Topic, plan: ConfigPlan, validate_only: bool) -> None:
        topics = self._services.topics
        if validate_only:
            topics.check_alteration(topic, plan)
        else:
            await topics.alter_config_by(topic.name, plan)


def _key(asked: _Asked) -> tuple[int, str]:
    return asked.resource_type, asked.resource_name


def _doubled(resources: Sequence[_Asked]) -> set[tuple[int, str]]:
    return named_twice(_key(one) for one in resources)
