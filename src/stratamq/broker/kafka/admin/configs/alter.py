"""AlterConfigs and IncrementalAlterConfigs: of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from stratamq.broker.kafka.admin.configs.entries import (
    ConfigOperation,
    ConfigResourceType,
)
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import Refused, api_error, duplicate, duplicates
from stratamq.broker.kafka.groups.limits import GroupConfigs
from stratamq.broker.kafka.turns import paced
from stratamq.meta.configs import AlterResourceConfig, ConfigKind, ConfigScope
from stratamq.model.config import ALL_SETTINGS, GROUP_SETTINGS, GroupConfig
from stratamq.model.errors import InvalidConfig, StrataError
from stratamq.model.settings.kafka_names import broker_name
from stratamq.model.settings.setting import Setting, Value, unknown_name
from stratamq.model.settings.topic import TOPIC_SETTINGS
from stratamq.model.topic import TopicConfig
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

CACHE_S = 10.0
"""How long an alteration may take to reach this node's own cache."""

BROKER_SETTINGS: Mapping[str, Setting] = {
    broker_name(name): setting for name, setting in ALL_SETTINGS.items()
}
"""By the names that Kafka's tools use."""

_Asked = AlterConfigsResource | IncrementalAlterConfigsResource


class Configured(NamedTuple):
    """A resource's configs before a change: the settings it may have, the values that hold, and
    which of them it was given."""

    settings: Mapping[str, Setting]
    values: Mapping[str, Value]
    given: Collection[str]


class ConfigChange(NamedTuple):
    put: dict[str, object]
    reset: set[str]


Plan = Callable[[Configured], ConfigChange]


class AlterConfigs:
    """One resource after the other: each is changed whole, or not at all."""

    def __init__(self, services: Services, groups: GroupConfigs) -> None:
        self._alter: Mapping[int, Callable[[str, Plan, bool], Awaitable[None]]] = {
            ConfigResourceType.TOPIC: partial(alter_topic, services),
            ConfigResourceType.BROKER: partial(alter_broker, services),
            ConfigResourceType.GROUP: partial(alter_group, groups),
        }

    async def replace(self, request: AlterConfigsRequest, caller: Caller) -> AlterConfigsResponse:
        plans = [(one, partial(replacement, one.configs)) for one in request.resources]
        return AlterConfigsResponse(responses=await self._all(plans, request.validate_only))

    async def increment(
        self, request: IncrementalAlterConfigsRequest, caller: Caller
    ) -> IncrementalAlterConfigsResponse:
        plans = [(one, partial(increment, one.configs)) for one in request.resources]
        return IncrementalAlterConfigsResponse(
            responses=await self._all(plans, request.validate_only)
        )

    async def _all(
        self, plans: Sequence[tuple[_Asked, Plan]], validate_only: bool
    ) -> list[AlterConfigsResourceResponse]:
        keys = [(asked.resource_type, asked.resource_name) for asked, _ in plans]
        doubled, each = duplicates(keys), dict(zip(keys, plans, strict=True))
        return [
            await self._resource(*one, validate_only, key in doubled)
            async for key, one in paced(each.items())
        ]

    async def _resource(
        self, asked: _Asked, plan: Plan, validate_only: bool, doubled: bool
    ) -> AlterConfigsResourceResponse:
        code, message = ErrorCode.NONE, None
        try:
            if doubled:
                raise duplicate(asked.resource_name)
            alter = self._alter.get(asked.resource_type)
            if alter is None:
                names = {kind.value: kind.name.lower() for kind in ConfigResourceType}
                kind = names.get(asked.resource_type, f"resource {asked.resource_type}")
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"configs of a {kind.replace('_', ' ')} cannot be altered",
                )
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
    def planned(config: TopicConfig) -> ConfigChange:
        return plan(Configured(TOPIC_SETTINGS, config.values, config.given))

    if validate_only:
        services.topics.check_alteration(services.broker_cache.topic(name), planned)
    else:
        await services.topics.alter_config_by(name, planned)


async def alter_group(groups: GroupConfigs, name: str, plan: Plan, validate_only: bool) -> None:
    def planned(config: GroupConfig) -> ConfigChange:
        return plan(Configured(GROUP_SETTINGS, config.values, config.given))

    await groups.alter(name, planned, validate_only)


async def alter_broker(services: Services, name: str, plan: Plan, validate_only: bool) -> None:
    """The empty name stands for all brokers. Refused unless every setting it names is dynamic."""
    if name not in ("", str(services.node_id)):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"this is broker {services.node_id}; {name!r} is neither that nor empty",
        )
    scope = ConfigScope(ConfigKind.BROKER, name)
    stored = services.configs.given(scope)
    given = {broker_name(one): value for one, value in stored.items() if one in ALL_SETTINGS}
    values = {name: setting.default for name, setting in BROKER_SETTINGS.items()} | given
    change = plan(Configured(BROKER_SETTINGS, values, given))
    for one in (*change.put, *change.reset):
        if not BROKER_SETTINGS[one].dynamic:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"{one} cannot be altered while the node runs: set {BROKER_SETTINGS[one].name} "
                "where the node is started",
            )
    command = AlterResourceConfig(
        scope=scope,
        put={
            # Parsed under the name that the client used: errors then have it.
            BROKER_SETTINGS[one].name: replace(BROKER_SETTINGS[one], name=one).parse(raw)
            for one, raw in change.put.items()
        },
        reset=frozenset(BROKER_SETTINGS[one].name for one in change.reset),
    )
    if not validate_only:
        revision = await services.meta.submit(command)
        await services.configs.wait_for_revision(revision, CACHE_S)


# -- from what a request asks for to what changes --------------------------------------------------


def replacement(configs: Sequence[AlterableConfig], config: Configured) -> ConfigChange:
    """AlterConfigs: a setting that is not named goes back to its default, unless that is fixed."""
    _check_names([one.name for one in configs], config)
    put: dict[str, object] = {one.name: _value(one) for one in configs}
    return ConfigChange(
        put, {name for name in config.given if name not in put and not config.settings[name].fixed}
    )


def increment(configs: Sequence[IncrementalAlterableConfig], config: Configured) -> ConfigChange:
    """IncrementalAlterConfigs: only what is named changes."""
    _check_names([one.name for one in configs], config)
    put: dict[str, object] = {}
    reset: set[str] = set()
    for one in configs:
        match one.config_operation:
            case ConfigOperation.SET:
                put[one.name] = _value(one)
            case ConfigOperation.DELETE:
                reset.add(one.name)
            case ConfigOperation.APPEND:
                items, named = _list_items(one, config)
                put[one.name] = ",".join(items + [item for item in named if item not in items])
            case ConfigOperation.SUBTRACT:
                items, named = _list_items(one, config)
                put[one.name] = ",".join(item for item in items if item not in named)
            case unknown:
                raise Refused(ErrorCode.INVALID_REQUEST, f"{one.name}: no operation {unknown}")
    return ConfigChange(put, reset)


def _check_names(names: Sequence[str], config: Configured) -> None:
    for name in names:
        if name not in config.settings:
            raise unknown_name(name, config.settings)
    for name in duplicates(names):
        raise duplicate(name)


def _value(one: AlterableConfig | IncrementalAlterableConfig) -> str:
    if one.value is None:
        raise InvalidConfig(f"{one.name}: a value is missing")
    return one.value


def _list_items(one: IncrementalAlterableConfig, config: Configured) -> tuple[list[str], list[str]]:
    """The items that a setting has, and those that the request names."""
    if not config.settings[one.name].many:
        raise InvalidConfig(f"{one.name} is no list: nothing can be added to it or taken from it")
    items = [item for item in str(config.values[one.name]).split(",") if item]
    return items, [item.strip() for item in _value(one).split(",")]
