"""The configs of single groups: altered by admins, kept by the Meta Service, used by coordinators.

A change is durable when `alter` returns, and a running group uses it from its next request on. A
group need not exist to be configured, and its configs outlive its deletion, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from stratamq.broker.kafka.contract import Services
from stratamq.meta.names import check_group_name
from stratamq.meta.resource_configs import AlterResourceConfig, ConfigKind, ConfigScope
from stratamq.model.config import GroupConfig

CACHE_S = 10.0
"""How long a change may take to reach this node's own cache."""

GroupConfigPlan = Callable[[GroupConfig], tuple[Mapping[str, object], Collection[str]]]
"""From a group's config to what is put and what is reset."""


class GroupConfigs:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = asyncio.Lock()  # a change is checked against the config that it changes

    def config(self, name: str) -> GroupConfig:
        given = self._services.configs.given(ConfigScope(ConfigKind.GROUP, name))
        return GroupConfig.of(given, self._services.config)

    def names(self) -> list[str]:
        """The groups that have configs of their own."""
        return [scope.name for scope in self._services.configs.scopes(ConfigKind.GROUP)]

    async def alter(self, name: str, plan: GroupConfigPlan, validate_only: bool) -> None:
        """InvalidName or InvalidConfig when it cannot be; then nothing has changed."""
        check_group_name(name)
        async with self._lock:
            config = self.config(name)
            put, reset = plan(config)
            kept = {key: value for key, value in config.given.items() if key not in reset}
            after = GroupConfig.of({**kept, **put}, self._services.config)
            after.check(self._services.config)
            if validate_only:
                return
            command = AlterResourceConfig(
                scope=ConfigScope(ConfigKind.GROUP, name),
                put={key: after[key] for key in put},
                reset=frozenset(reset),
            )
            revision = await self._services.meta.submit(command)
            await self._services.configs.wait_for_revision(revision, CACHE_S)
