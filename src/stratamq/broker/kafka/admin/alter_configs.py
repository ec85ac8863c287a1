"""AlterConfigs and IncrementalAlterConfigs: of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from stratamq.broker.kafka.admin.config_changes import (
    Change,
    Configured,
    Plan,
    increment,
    replacement,
)
from stratamq.broker.kafka.admin.kinds import Resource
from stratamq.broker.kafka.admin.resource_configs import alter_broker
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import Refused, api_error, duplicate, duplicates
from stratamq.broker.kafka.groups.configs import GroupConfigs
from stratamq.broker.kafka.turns import paced
from stratamq.model.config import GROUP_SETTINGS, GroupConfig
from stratamq.model.errors import StrataError
from stratamq.model.settings.topic import TOPIC_SETTINGS
from stratamq.model.topic import TopicConfig
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

    def __init__(self, services: Services, groups: GroupConfigs) -> None:
        self._alter: Mapping[int, Callable[[str, Plan, bool], Awaitable[None]]] = {
            Resource.TOPIC: partial(alter_topic, services),
            Resource.BROKER: partial(alter_broker, services),
            Resource.GROUP: partial(alter_group, groups),
        }

    async def replace(self, request: AlterConfigsRequest, caller: Caller) -> AlterConfigsResponse:
        doubled = _doubled(request.resources)
        each = {_key(one): one for one in request.resources}
        return AlterConfigsResponse(
            responses=[
                await self._resource(
                    one, partial(replacement, one.configs), request.validate_only, doubled
                )
                async for one in paced(each.values())
            ]
        )

    async def increment(
        self, request: IncrementalAlterConfigsRequest, caller: Caller
    ) -> IncrementalAlterConfigsResponse:
        doubled = _doubled(request.resources)
        each = {_key(one): one for one in request.resources}
        return IncrementalAlterConfigsResponse(
            responses=[
                await self._resource(
                    one, partial(increment, one.configs), request.validate_only, doubled
                )
                async for one in paced(each.values())
            ]
        )

    async def _resource(
        self, asked: _Asked, plan: Plan, validate_only: bool, doubled: set[tuple[int, str]]
    ) -> AlterConfigsResourceResponse:
        code, message = ErrorCode.NONE, None
        try:
            if _key(asked) in doubled:
                raise duplicate(asked.resource_name)
            alter = self._alter.get(asked.resource_type)
            if alter is None:
                kind = _NAMES.get(asked.resource_type, f"resource {asked.resource_type}")
                raise Refused(ErrorCode.INVALID_REQUEST, f"configs of a {kind} cannot be altered")
            await alter(asked.resource_name, plan, validate_only)
        except StrataError as error:
            code, message = api_error(error)
        return AlterConfigsResourceResponse(
            error_code=code,
            error_message=message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
        )


async def alter_topic(services: Services, name: str, plan: Plan, validate_only: bool) -> None:
    def planned(config: TopicConfig) -> Change:
        return plan(Configured(TOPIC_SETTINGS, config.values, config.given))

    if validate_only:
        services.topics.check_alteration(services.broker_cache.topic(name), planned)
    else:
        await services.topics.alter_config_by(name, planned)


async def alter_group(groups: GroupConfigs, name: str, plan: Plan, validate_only: bool) -> None:
    def planned(config: GroupConfig) -> Change:
        return plan(Configured(GROUP_SETTINGS, config.values, config.given))

    await groups.alter(name, planned, validate_only)


def _key(asked: _Asked) -> tuple[int, str]:
    return asked.resource_type, asked.resource_name


def _doubled(resources: Sequence[_Asked]) -> set[tuple[int, str]]:
    return duplicates(_key(one) for one in resources)
