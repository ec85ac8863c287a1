"""Configs of brokers and groups that were altered while nodes run: entity, command, rule, rows, and
the cache through which a broker's take effect. A topic's configs are in its own row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from stratamq.meta.client import MetaClient, WatchedCache
from stratamq.meta.rows import Fields, RowFormat, text_key
from stratamq.meta.state import Event, MetaState, Put, Removed
from stratamq.model.config import NodeConfig
from stratamq.model.dataclass import dataclass
from stratamq.model.settings.setting import Value
from stratamq.model.types import NodeId


class ConfigKind(StrEnum):
    """Which kinds of resources have such configs."""

    BROKER = "broker"
    GROUP = "group"


class ConfigScope(NamedTuple):
    """One resource. A broker without a name stands for all brokers; a config of a single broker
    wins over it."""

    kind: ConfigKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceConfig:
    """What a resource was configured with, by the names of the settings tables."""

    scope: ConfigScope
    given: Mapping[str, Value]

    @property
    def key(self) -> ConfigScope:
        return self.scope


EVERY_BROKER = ConfigScope(ConfigKind.BROKER, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterResourceConfig:
    """Set some settings and reset others; without any left the resource is forgotten.

    The caller has checked names and values against its settings table.
    """

    scope: ConfigScope
    put: Mapping[str, Value] = field(default_factory=dict)
    reset: frozenset[str] = frozenset()


def alter_resource_config(state: MetaState, command: AlterResourceConfig) -> list[Event]:
    old = state.configs.get(command.scope)
    kept = {} if old is None else {n: v for n, v in old.given.items() if n not in command.reset}
    given = {**kept, **command.put}
    if given:
        new = ResourceConfig(scope=command.scope, given=given)
        return [] if new == old else [Put(new)]
    return [] if old is None else [Removed(old)]


def _config_fields(config: ResourceConfig) -> Fields:
    return {**config.scope._asdict(), "given": dict(config.given)}


def _config(fields: Fields) -> ResourceConfig:
    scope = ConfigScope(ConfigKind(fields["kind"]), fields["name"])
    return ResourceConfig(scope=scope, given=fields["given"])


CONFIG_ROWS = (
    RowFormat(
        ResourceConfig,
        b"c",
        lambda config: text_key(f"{config.scope.kind}/{config.scope.name}"),
        _config,
        _config_fields,
    ),
)


class ConfigCacheManager(WatchedCache):
    """Whenever configs of this broker, or of all brokers, change, the node's config has the new
    values and the listeners are called. Code that reads a dynamic setting when it needs it does not
    have to listen."""

    _configs: dict[ConfigScope, ResourceConfig]

    def __init__(
        self, client: MetaClient, node: NodeId, config: NodeConfig, *, reconcile_s: float = 10.0
    ) -> None:
        super().__init__(client, reconcile_s=reconcile_s)
        self._this_broker = ConfigScope(ConfigKind.BROKER, str(node))
        self._config = config
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def given(self, scope: ConfigScope) -> Mapping[str, Value]:
        found = self._configs.get(scope)
        return {} if found is None else found.given

    def scopes(self, kind: ConfigKind) -> list[ConfigScope]:
        """Which resources of this kind were given configs."""
        return sorted(scope for scope in self._configs if scope.kind is kind)

    def _replace(self, state: MetaState) -> None:
        self._configs = dict(state.configs)
        self._override()

    def _change(self, event: Event) -> Hashable | None:
        changed = event.entity
        if not isinstance(changed, ResourceConfig):
            return None
        self._configs.pop(changed.scope, None)
        if isinstance(event, Put):
            self._configs[changed.scope] = changed
        if changed.scope in (self._this_broker, EVERY_BROKER):
            self._override()
        return changed.scope

    def _override(self) -> None:
        self._config.override(
            every_broker=self.given(EVERY_BROKER), this_broker=self.given(self._this_broker)
        )
        for listener in self._listeners:
            listener()
