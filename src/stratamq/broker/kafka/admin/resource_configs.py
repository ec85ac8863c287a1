"""Configs that brokers are given while they run: checked, stored, and then in effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stratamq.broker.kafka.admin.broker_names import broker_name
from stratamq.broker.kafka.admin.config_changes import Change, Configured, Plan
from stratamq.broker.kafka.contract import Services
from stratamq.broker.kafka.errors import Refused
from stratamq.meta.resource_configs import AlterResourceConfig, ConfigKind, ConfigScope
from stratamq.model.config import ALL_SETTINGS
from stratamq.model.settings.setting import Setting, Value
from stratamq.wire.kafka.protocol import ErrorCode

CACHE_S = 10.0
"""How long an alteration may take to reach this node's own cache."""

BROKER_SETTINGS: Mapping[str, Setting] = {
    broker_name(name): setting for name, setting in ALL_SETTINGS.items()
}
"""By the names that Kafka's tools use."""


async def alter_broker(services: Services, name: str, plan: Plan, validate_only: bool) -> None:
    """The empty name stands for all brokers. Refused unless every setting it names is dynamic."""
    if name not in ("", str(services.node_id)):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"this is broker {services.node_id}; {name!r} is neither that nor empty",
        )
    await alter_resource(
        services, ConfigScope(ConfigKind.BROKER, name), BROKER_SETTINGS, plan, validate_only
    )


async def alter_resource(
    services: Services,
    scope: ConfigScope,
    settings: Mapping[str, Setting],
    plan: Plan,
    validate_only: bool,
) -> None:
    """`settings` are those that the resource may have, by the names that clients know."""
    names = {setting.name: name for name, setting in settings.items()}
    stored = services.configs.given(scope)
    given = {names[one]: value for one, value in stored.items() if one in names}
    values = {name: setting.default for name, setting in settings.items()} | given
    change = plan(Configured(settings, values, given))
    command = AlterResourceConfig(
        scope=scope,
        put=_parsed(settings, change),
        reset=frozenset(settings[name].name for name in change.reset),
    )
    if not validate_only:
        revision = await services.meta.submit(command)
        await services.configs.wait_for_revision(revision, CACHE_S)


def _parsed(settings: Mapping[str, Setting], change: Change) -> dict[str, Value]:
    for name in (*change.put, *change.reset):
        if not settings[name].dynamic:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"{name} cannot be altered while the node runs: set {settings[name].name} where "
                "the node is started",
            )
    return {
        settings[name].name: replace(settings[name], name=name).parse(raw)  # complaints name it so
        for name, raw in change.put.items()
    }
