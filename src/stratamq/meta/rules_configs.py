"""What commands on configs of brokers and groups change."""

from __future__ import annotations

from stratamq.meta.events import Event, Put, Removed
from stratamq.meta.resource_configs import AlterResourceConfig, ResourceConfig
from stratamq.meta.state import MetaState


def alter_resource_config(state: MetaState, command: AlterResourceConfig) -> list[Event]:
    old = state.configs.get(command.scope)
    kept = {} if old is None else {n: v for n, v in old.given.items() if n not in command.reset}
    given = {**kept, **command.put}
    if given:
        new = ResourceConfig(scope=command.scope, given=given)
        return [] if new == old else [Put(new)]
    return [] if old is None else [Removed(old)]
