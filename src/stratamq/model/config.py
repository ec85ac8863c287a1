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

from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidConfig
from stratamq.model.settings.node import NODE_SETTINGS
from stratamq.model.settings.setting import Setting, Value, parse_all, unknown_name
from stratamq.model.settings.topic import TOPIC_SETTINGS
from stratamq.model.topic import TopicConfig

TOPIC_PREFIX = "topic."
ENV_PREFIX = "STRATAMQ_"
ENV_FILE = "STRATAMQ_CONFIG"
"""Where the file is."""

CLIENT_VARIABLES = frozenset(
    ENV_PREFIX + name
    for name in (
        *("SERVER", "SERVERS", "PROFILE", "PROFILES", "USER", "PASSWORD", "PASSWORD_FILE"),
        *("MECHANISM", "TLS", "CA", "CERTIFICATE", "KEY"),
    )
)
"""How commands reach a running node (see docs/cli.md); a node itself does not read them."""


class ConfigSource(StrEnum):
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

    def __init__(self, layers: Mapping[ConfigSource, Mapping[str, Value]]) -> None:
        self._layers = {source: layers.get(source, {}) for source in ConfigSource}
        self.values: Mapping[str, Value] = {}
        self.sources: Mapping[str, ConfigSource] = {}
        self._merge()

    def override(
        self, *, every_broker: Mapping[str, Value], this_broker: Mapping[str, Value]
    ) -> None:
        """Replace what was altered before. What is not dynamic (any more) is left out."""
        self._layers[ConfigSource.EVERY_BROKER] = _dynamic(every_broker)
        self._layers[ConfigSource.THIS_BROKER] = _dynamic(this_broker)
        self._merge()

    def given(self, name: str) -> list[tuple[ConfigSource, Value]]:
        """What each source that has the setting says, the one that holds first."""
        found = [(source, layer[name]) for source, layer in self._layers.items() if name in layer]
        return found[::-1]

    def _merge(self) -> None:
        values: dict[str, Value] = {}
        sources: dict[str, ConfigSource] = {}
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
            if name.startswith(TOPIC_PREFIX) and source is not ConfigSource.DEFAULT
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
        ConfigSource.DEFAULT: {name: setting.default for name, setting in ALL_SETTINGS.items()},
        ConfigSource.FILE: read_file(file) if file else {},
        ConfigSource.ENVIRONMENT: read_env(env),
        ConfigSource.FLAG: _known(flags or {}, "a flag"),
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
    for name in (ENV_FILE, *CLIENT_VARIABLES):
        ours.pop(name, None)
    for name in ours:
        if name not in _BY_ENV:
            raise _placed(
                unknown_name(name, [*_BY_ENV, ENV_FILE, *CLIENT_VARIABLES]), "the environment"
            )
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


# -- consumer groups -------------------------------------------------------------------------------

GROUP_PREFIX = "group."
"""With this before it, a group's setting is the node's: the value for groups without their own."""

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INT32_MAX = (1 << 31) - 1

GROUP_SETTINGS: dict[str, Setting] = {
    name: replace(ALL_SETTINGS[GROUP_PREFIX + name], name=name, maximum=INT32_MAX)
    for name in (SESSION, HEARTBEAT)
}


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """`given` is what an administrator said about this group, the other values are the node's."""

    given: Mapping[str, Value]
    values: Mapping[str, Value]

    @classmethod
    def of(cls, given: Mapping[str, object], node: NodeConfig) -> GroupConfig:
        """Parse; InvalidConfig names the setting and what is wrong with it."""
        parsed = parse_all(GROUP_SETTINGS, given)
        own = {name: parsed[name] for name in given}
        return cls(own, {name: node.values[GROUP_PREFIX + name] for name in GROUP_SETTINGS} | own)

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def number(self, name: str) -> int:
        return cast(int, self.values[name])

    def check(self, node: NodeConfig) -> None:
        """InvalidConfig unless each value is within the node's bounds and they fit together."""
        for name in self.given:
            kind, _, rest = name.partition(".")
            least, most = (f"group.{kind}.{bound}.{rest}" for bound in ("min", "max"))
            if not node.number(least) <= self.number(name) <= node.number(most):
                raise InvalidConfig(
                    f"{name}: {self[name]} is not between {least} ({node.number(least)}) "
                    f"and {most} ({node.number(most)})"
                )
        if self.given and self.number(SESSION) <= self.number(HEARTBEAT):
            raise InvalidConfig(f"{SESSION} must be above {HEARTBEAT}")
