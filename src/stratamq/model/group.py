"""What one consumer group may be configured with. What it is not given comes from the node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from stratamq.model.config import ALL_SETTINGS, NodeConfig
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidConfig
from stratamq.model.settings import Setting, Value, parse_all

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
