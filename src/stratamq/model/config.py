"""What a node is configured with: one TOML file, environment variables and flags, same names.

    kafka.port = 9092          in the file (dotted, or `port` under `[kafka]`)
    STRATAMQ_KAFKA_PORT=9092   in the environment
    --kafka-port 9092          as a flag

A flag wins over the environment, the environment over the file, the file over the default. What an
administrator alters while the node runs wins over all of them. An unknown name is refused with the
nearest known one, wherever it came from. Names that begin with `topic.` set what topics get that do
not say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import cast

from stratamq.model.errors import InvalidConfig
from stratamq.model.node_settings import NODE_SETTINGS
from stratamq.model.settings import Setting, Value, unknown_name
from stratamq.model.topic import TOPIC_SETTINGS, TopicConfig

TOPIC_PREFIX = "topic."
ENV_PREFIX = "STRATAMQ_"
ENV_FILE = "STRATAMQ_CONFIG"
"""The one variable that is not a setting: where the file is."""


class Source(StrEnum):
    """Where a value came from, weakest first."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"
    EVERY_BROKER = "altered for every broker"
    THIS_BROKER = "altered for this broker"


def env_name(name: str) -> str:
    return ENV_PREFIX + name.upper().replace(".", "_")


def flag_name(name: str) -> str:
    return "--" + name.replace(".", "-")


ALL_SETTINGS: dict[str, Setting] = NODE_SETTINGS | {
    TOPIC_PREFIX + name: replace(setting, name=TOPIC_PREFIX + name, dynamic=True)
    for name, setting in TOPIC_SETTINGS.items()
}
_BY_ENV = {env_name(name): name for name in ALL_SETTINGS}

assert len(_BY_ENV) == len(ALL_SETTINGS), "two settings share an environment variable"


class NodeConfig:
    """Every setting of a node, and where each value came from.

    A node is started with what `load` found. Settings that are `dynamic` may be overridden while it
    runs; all others keep their values.
    """

    def __init__(self, layers: Mapping[Source, Mapping[str, Value]]) -> None:
        self._layers = {source: layers.get(source, {}) for source in Source}
        self.values: Mapping[str, Value] = {}
        self.sources: Mapping[str, Source] = {}
        self._merge()

    def override(
        self, *, every_broker: Mapping[str, Value], this_broker: Mapping[str, Value]
    ) -> None:
        """Replace what was altered before. What is not dynamic (any more) is left out."""
        self._layers[Source.EVERY_BROKER] = _dynamic(every_broker)
        self._layers[Source.THIS_BROKER] = _dynamic(this_broker)
        self._merge()

    def given(self, name: str) -> list[tuple[Source, Value]]:
        """What each source that has the setting says, the one that holds first."""
        found = [(source, layer[name]) for source, layer in self._layers.items() if name in layer]
        return found[::-1]

    def _merge(self) -> None:
        values: dict[str, Value] = {}
        sources: dict[str, Source] = {}
        for source, layer in self._layers.items():  # weakest first
            values |= layer
            sources |= dict.fromkeys(layer, source)
        self.values, self.sources = values, sources

    def number(self, name: str) -> int:
        return cast(int, self.values[name])

    def text(self, name: str) -> str:
        return cast(str, self.values[name])

    def flag(self, name: str) -> bool:
        return cast(bool, self.values[name])

    @property
    def data_dir(self) -> Path:
        return Path(self.text("data.dir")).expanduser()

    @property
    def topic_defaults(self) -> TopicConfig:
        """What was said about topics in general; a topic's own configs go over it."""
        given = {
            name.removeprefix(TOPIC_PREFIX): self.values[name]
            for name, source in self.sources.items()
            if name.startswith(TOPIC_PREFIX) and source is not Source.DEFAULT
        }
        return TopicConfig.of(given)


def load(
    file: Path | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> NodeConfig:
    """Put the sources together. InvalidConfig says which one is wrong, and where."""
    env = env or {}
    if file is None and env.get(ENV_FILE):
        file = Path(env[ENV_FILE])
    layers = {
        Source.DEFAULT: {name: setting.default for name, setting in ALL_SETTINGS.items()},
        Source.FILE: read_file(file) if file else {},
        Source.ENVIRONMENT: read_env(env),
        Source.FLAG: _known(flags or {}, "a flag"),
    }
    return NodeConfig(layers)


def _dynamic(given: Mapping[str, Value]) -> dict[str, Value]:
    """A later version may know fewer settings than the one that stored these."""
    return {
        name: value
        for name, value in given.items()
        if (setting := ALL_SETTINGS.get(name)) is not None and setting.dynamic
    }


def read_file(path: Path) -> dict[str, Value]:
    """The settings in a TOML file. Tables and dotted names mean the same."""
    import tomllib  # a node without a file starts without a parser

    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfig(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path}: is not TOML ({error})") from None
    return _known(dict(_flatten(tree)), str(path))


def read_env(env: Mapping[str, str]) -> dict[str, Value]:
    """The settings among the environment variables. Others than STRATAMQ_... are not ours."""
    ours = {name: raw for name, raw in env.items() if name.startswith(ENV_PREFIX)}
    ours.pop(ENV_FILE, None)
    for name in ours:
        if name not in _BY_ENV:
            raise _placed(unknown_name(name, [*_BY_ENV, ENV_FILE]), "the environment")
    return _known({_BY_ENV[name]: raw for name, raw in ours.items()}, "the environment")


def _flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _known(given: Mapping[str, object], place: str) -> dict[str, Value]:
    """The parsed values, or a complaint that says in which place the culprit stands."""
    parsed = {}
    for name, raw in given.items():
        try:
            if name not in ALL_SETTINGS:
                raise unknown_name(name, ALL_SETTINGS)
            parsed[name] = ALL_SETTINGS[name].parse(raw)
        except InvalidConfig as error:
            raise _placed(error, place) from None
    return parsed


def _placed(error: InvalidConfig, place: str) -> InvalidConfig:
    return InvalidConfig(f"{place}: {error}")
