"""Settings as Kafka's tools see them: their names, values, origins and types. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

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
from stratamq.model.settings.kafka_names import broker_name
from stratamq.model.settings.setting import Setting, Value
from stratamq.model.settings.topic import TOPIC_SETTINGS
from stratamq.model.topic import TopicConfig

# -- Kafka's numbers -------------------------------------------------------------------------------


class ConfigResourceType(IntEnum):
    """What has configs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOrigin(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    THIS_BROKER = 2
    EVERY_BROKER = 3
    NODE = 4
    DEFAULT = 5
    GROUP = 8


class ConfigType(IntEnum):
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    LIST = 7
    PASSWORD = 9


class ConfigOperation(IntEnum):
    """What an incremental change does."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


# -- entries ---------------------------------------------------------------------------------------


INT_MAX = (1 << 31) - 1
SECRETS = ("password", "secret")


class Synonym(NamedTuple):
    """A name under which a setting has a value. The first of an entry holds; the others would
    without it."""

    name: str
    value: str | None
    origin: ConfigOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config. The first synonym has the value that holds."""

    name: str
    synonyms: tuple[Synonym, ...]
    read_only: bool
    type: ConfigType = ConfigType.STRING
    sensitive: bool = False
    doc: str = ""

    @property
    def value(self) -> str | None:
        return self.synonyms[0].value

    @property
    def source(self) -> ConfigOrigin:
        return self.synonyms[0].origin


def text_of(value: Value) -> str:
    """As Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def type_of(setting: Setting) -> ConfigType:
    if is_secret(setting.name):
        return ConfigType.PASSWORD
    if isinstance(setting.default, bool):
        return ConfigType.BOOLEAN
    if isinstance(setting.default, int):
        fits = setting.maximum is not None and setting.maximum <= INT_MAX
        return ConfigType.INT if fits else ConfigType.LONG
    return ConfigType.LIST if setting.many else ConfigType.STRING


def is_secret(name: str) -> bool:
    return name.endswith(SECRETS)


# -- topics ----------------------------------------------------------------------------------------


def topic_entries(config: TopicConfig, node: NodeConfig) -> list[ConfigEntry]:
    return [
        ConfigEntry(
            name=name,
            synonyms=_topic_synonyms(name, config, _node_synonyms(TOPIC_PREFIX + name, node)),
            read_only=setting.fixed,
            type=type_of(setting),
            doc=setting.doc,
        )
        for name, setting in TOPIC_SETTINGS.items()
    ]


def _topic_synonyms(
    name: str, config: TopicConfig, below: tuple[Synonym, ...]
) -> tuple[Synonym, ...]:
    """A topic copies the node's settings for topics when it is created. While it has the node's
    value, the node is reported as the source. Later changes of the node do not reach it."""
    if name not in config.given:
        return below[-1:]
    value = text_of(config[name])
    if below[0].origin is not ConfigOrigin.DEFAULT and below[0].value == value:
        return below
    return Synonym(name, value, ConfigOrigin.TOPIC), *below


# -- nodes and groups ------------------------------------------------------------------------------


_ORIGINS = {
    ConfigSource.DEFAULT: ConfigOrigin.DEFAULT,
    ConfigSource.EVERY_BROKER: ConfigOrigin.EVERY_BROKER,
    ConfigSource.THIS_BROKER: ConfigOrigin.THIS_BROKER,
}
"""All others are what the node was started with."""


def broker_entries(node: NodeConfig, computed: Iterable[tuple[str, str]] = ()) -> list[ConfigEntry]:
    """Every setting of a node, and what follows from them."""
    entries = [_node_entry(broker_name(name), name, node) for name in ALL_SETTINGS]
    known = {entry.name for entry in entries}
    extra = [
        ConfigEntry(name=name, synonyms=(Synonym(name, value, ConfigOrigin.NODE),), read_only=True)
        for name, value in computed
        if name not in known
    ]
    return entries + extra


def every_broker_entries(node: NodeConfig) -> list[ConfigEntry]:
    """Only what was altered for all brokers."""
    entries = [_node_entry(broker_name(name), name, node) for name in ALL_SETTINGS]
    altered = [
        (entry, [one for one in entry.synonyms if one.origin is ConfigOrigin.EVERY_BROKER])
        for entry in entries
    ]
    return [replace(entry, synonyms=tuple(some)) for entry, some in altered if some]


def group_entries(config: GroupConfig, node: NodeConfig) -> list[ConfigEntry]:
    return [_group_entry(setting, config, node) for setting in GROUP_SETTINGS.values()]


def _group_entry(setting: Setting, config: GroupConfig, node: NodeConfig) -> ConfigEntry:
    name = setting.name
    own = (
        (Synonym(name, text_of(config[name]), ConfigOrigin.GROUP),) if name in config.given else ()
    )
    return ConfigEntry(
        name=name,
        synonyms=own + _node_synonyms(GROUP_PREFIX + name, node),
        read_only=False,
        type=type_of(setting),
        doc=setting.doc,
    )


def _node_entry(name: str, setting_name: str, node: NodeConfig) -> ConfigEntry:
    setting = ALL_SETTINGS[setting_name]
    return ConfigEntry(
        name=name,
        synonyms=_node_synonyms(setting_name, node),
        read_only=not setting.dynamic,
        type=type_of(setting),
        sensitive=is_secret(setting_name),
        doc=setting.doc,
    )


def _node_synonyms(setting: str, node: NodeConfig) -> tuple[Synonym, ...]:
    name, secret = broker_name(setting), is_secret(setting)

    def synonym(value: Value, origin: ConfigOrigin) -> Synonym:
        return Synonym(name, None if secret else text_of(value), origin)

    found: dict[ConfigOrigin, Synonym] = {}
    for source, value in node.given(setting):
        origin = _ORIGINS.get(source, ConfigOrigin.NODE)
        found.setdefault(origin, synonym(value, origin))  # a flag wins over the file
    return tuple(found.values())
