"""From what a request says about configs to what is put and what goes back to its default. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from stratamq.broker.kafka.admin.kinds import Operation
from stratamq.broker.kafka.errors import Refused, duplicate, duplicates
from stratamq.model.errors import InvalidConfig
from stratamq.model.settings.setting import Setting, Value, unknown_name
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.configs import (
    AlterableConfig,
    IncrementalAlterableConfig,
)


class Configured(NamedTuple):
    """A resource's configs before a change: the settings it may have, the values that hold, and
    which of them it was given."""

    settings: Mapping[str, Setting]
    values: Mapping[str, Value]
    given: Collection[str]


class Change(NamedTuple):
    put: dict[str, object]
    reset: set[str]


Plan = Callable[[Configured], Change]


def replacement(configs: Sequence[AlterableConfig], config: Configured) -> Change:
    """AlterConfigs: what is not named goes back to its default, unless that is fixed."""
    _check_names([one.name for one in configs], config)
    put: dict[str, object] = {one.name: _value(one.name, one.value) for one in configs}
    return Change(
        put, {name for name in config.given if name not in put and not config.settings[name].fixed}
    )


def increment(configs: Sequence[IncrementalAlterableConfig], config: Configured) -> Change:
    """IncrementalAlterConfigs: only what is named changes."""
    _check_names([one.name for one in configs], config)
    change = Change({}, set())
    for one in configs:
        act = _ACTS.get(one.config_operation)
        if act is None:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"{one.name}: no operation {one.config_operation}"
            )
        act(change, one, config)
    return change


def _check_names(names: Sequence[str], config: Configured) -> None:
    for name in names:
        if name not in config.settings:
            raise unknown_name(name, config.settings)
    for name in duplicates(names):
        raise duplicate(name)


def _value(name: str, value: str | None) -> str:
    if value is None:
        raise InvalidConfig(f"{name}: a value is missing")
    return value


# -- operations ------------------------------------------------------------------------------------


def _set(change: Change, one: IncrementalAlterableConfig, config: Configured) -> None:
    change.put[one.name] = _value(one.name, one.value)


def _delete(change: Change, one: IncrementalAlterableConfig, config: Configured) -> None:
    change.reset.add(one.name)


def _append(change: Change, one: IncrementalAlterableConfig, config: Configured) -> None:
    there = _items(one.name, config)
    added = [item for item in _listed(one) if item not in there]
    change.put[one.name] = ",".join(there + added)


def _subtract(change: Change, one: IncrementalAlterableConfig, config: Configured) -> None:
    gone = _listed(one)
    change.put[one.name] = ",".join(item for item in _items(one.name, config) if item not in gone)


def _items(name: str, config: Configured) -> list[str]:
    if not config.settings[name].many:
        raise InvalidConfig(f"{name} is no list: nothing can be added to it or taken from it")
    return [item for item in str(config.values[name]).split(",") if item]


def _listed(one: IncrementalAlterableConfig) -> list[str]:
    return [item.strip() for item in _value(one.name, one.value).split(",")]


_Act = Callable[[Change, IncrementalAlterableConfig, Configured], None]
_ACTS: Mapping[int, _Act] = {
    Operation.SET: _set,
    Operation.DELETE: _delete,
    Operation.APPEND: _append,
    Operation.SUBTRACT: _subtract,
}
