"""Settings as Kafka describes them: value, origin, what is overridden by it, type. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from stratamq.broker.kafka.admin.broker_names import broker_name
from stratamq.broker.kafka.admin.kinds import Origin, Type
from stratamq.model.config import (
    ALL_SETTINGS,
    GROUP_PREFIX,
    GROUP_SETTINGS,
    TOPIC_PREFIX,
    ConfigSource,
    GroupConfig,
    NodeConfig,
)
from stratamq.model.dataclass import dataclass
from stratamq.model.settings.setting import Setting, Value
from stratamq.model.settings.topic import TOPIC_SETTINGS
from stratamq.model.topic import TopicConfig

INT_MAX = (1 << 31) - 1
SECRETS = ("password", "secret")


class Synonym(NamedTuple):
    """A value that would hold, or holds, under a name of its own."""

    name: str
    value: str | None
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One config. The first synonym is the one that holds."""

    name: str
    synonyms: tuple[Synonym, ...]
    read_only: bool
    type: Type = Type.STRING
    sensitive: bool = False
    doc: str = ""

    @property
    def value(self) -> str | None:
        return self.synonyms[0].value

    @property
    def source(self) -> Origin:
        return self.synonyms[0].origin


def shown(value: Value) -> str:
    """As Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def type_of(setting: Setting) -> Type:
    if is_secret(setting.name):
        return Type.PASSWORD
    if isinstance(setting.default, bool):
        return Type.BOOLEAN
    if isinstance(setting.default, int):
        fits = setting.maximum is not None and setting.maximum <= INT_MAX
        return Type.INT if fits else Type.LONG
    return Type.LIST if setting.many else Type.STRING


def is_secret(name: str) -> bool:
    return name.endswith(SECRETS)


# -- topics ----------------------------------------------------------------------------------------


def topic_entries(config: TopicConfig, node: NodeConfig) -> list[Entry]:
    return [_topic_entry(setting, config, node) for setting in TOPIC_SETTINGS.values()]


def _topic_entry(setting: Setting, config: TopicConfig, node: NodeConfig) -> Entry:
    name = setting.name
    return Entry(
        name=name,
        synonyms=_topic_synonyms(name, config, _node_synonyms(TOPIC_PREFIX + name, node)),
        read_only=setting.fixed,
        type=type_of(setting),
        doc=setting.doc,
    )


def _topic_synonyms(
    name: str, config: TopicConfig, below: tuple[Synonym, ...]
) -> tuple[Synonym, ...]:
    """A topic takes what the node says about topics with it when it is made. As long as it has the
    node's value, the node is where it comes from. What the node says later is not the topic's."""
    if name not in config.given:
        return below[-1:]
    value = shown(config[name])
    if below[0].origin is not Origin.DEFAULT and below[0].value == value:
        return below
    return Synonym(name, value, Origin.TOPIC), *below


# -- nodes and groups ------------------------------------------------------------------------------


_ORIGINS = {
    ConfigSource.DEFAULT: Origin.DEFAULT,
    ConfigSource.EVERY_BROKER: Origin.EVERY_BROKER,
    ConfigSource.THIS_BROKER: Origin.THIS_BROKER,
}
"""All others are what the node was started with."""


def broker_entries(node: NodeConfig, computed: Iterable[tuple[str, str]] = ()) -> list[Entry]:
    """Every setting of a node, and what follows from them."""
    entries = [_node_entry(broker_name(name), name, node) for name in ALL_SETTINGS]
    known = {entry.name for entry in entries}
    extra = [
        Entry(name=name, synonyms=(Synonym(name, value, Origin.NODE),), read_only=True)
        for name, value in computed
        if name not in known
    ]
    return entries + extra


def every_broker_entries(node: NodeConfig) -> list[Entry]:
    """Only what was altered for all brokers."""
    entries = [_node_entry(broker_name(name), name, node) for name in ALL_SETTINGS]
    altered = [
        (entry, [one for one in entry.synonyms if one.origin is Origin.EVERY_BROKER])
        for entry in entries
    ]
    return [replace(entry, synonyms=tuple(some)) for entry, some in altered if some]


def group_entries(config: GroupConfig, node: NodeConfig) -> list[Entry]:
    return [_group_entry(setting, config, node) for setting in GROUP_SETTINGS.values()]


def _group_entry(setting: Setting, config: GroupConfig, node: NodeConfig) -> Entry:
    name = setting.name
    own = (Synonym(name, shown(config[name]), Origin.GROUP),) if name in config.given else ()
    return Entry(
        name=name,
        synonyms=own + _node_synonyms(GROUP_PREFIX + name, node),
        read_only=False,
        type=type_of(setting),
        doc=setting.doc,
    )


def _node_entry(name: str, setting_name: str, node: NodeConfig) -> Entry:
    setting = ALL_SETTINGS[setting_name]
    return Entry(
        name=name,
        synonyms=_node_synonyms(setting_name, node),
        read_only=not setting.dynamic,
        type=type_of(setting),
        sensitive=is_secret(setting_name),
        doc=setting.doc,
    )


def _node_synonyms(setting: str, node: NodeConfig) -> tuple[Synonym, ...]:
    name, secret = broker_name(setting), is_secret(setting)

    def synonym(value: Value, origin: Origin) -> Synonym:
        return Synonym(name, None if secret else shown(value), origin)

    found: dict[Origin, Synonym] = {}
    for source, value in node.given(setting):
        origin = _ORIGINS.get(source, Origin.NODE)
        found.setdefault(origin, synonym(value, origin))  # a flag, and not the file below it
    return tuple(found.values())
