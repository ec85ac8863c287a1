"""Configs of brokers and groups that were altered while nodes run. A topic's are in its own row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from stratamq.model.dataclass import dataclass
from stratamq.model.settings.setting import Value


class ConfigKind(StrEnum):
    """Which kinds of resources have such configs."""

    BROKER = "broker"
    GROUP = "group"


class ConfigScope(NamedTuple):
    """One resource. A broker without a name stands for all brokers: what is given to a broker of
    its own wins over it."""

    kind: ConfigKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceConfig:
    """What was given to a resource, by the names of the settings tables."""

    scope: ConfigScope
    given: Mapping[str, Value]

    @property
    def key(self) -> ConfigScope:
        return self.scope


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterResourceConfig:
    """Give settings values, and take others back; without any left the resource is forgotten.

    The caller has checked names and values against its settings table.
    """

    scope: ConfigScope
    put: Mapping[str, Value] = field(default_factory=dict)
    reset: frozenset[str] = frozenset()
