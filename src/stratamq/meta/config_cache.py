"""A node's copy of the configs of brokers and groups; a broker's take effect here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from stratamq.meta.caches import WatchedCache
from stratamq.meta.client import MetaClient
from stratamq.meta.events import Event, Put
from stratamq.meta.resource_configs import ConfigKind, ConfigScope, ResourceConfig
from stratamq.meta.state import MetaState
from stratamq.model.config import NodeConfig
from stratamq.model.settings.setting import Value
from stratamq.model.types import NodeId

EVERY_BROKER = ConfigScope(ConfigKind.BROKER, "")


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
