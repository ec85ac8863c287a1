"""Every limit of a part is a setting of the node, and both have the same default."""

from __future__ import annotations

from dataclasses import fields

import pytest

from stratamq.adapter.shards import TopicTimeouts
from stratamq.engine.limits import EngineLimits
from stratamq.meta.limits import MetaLimits
from stratamq.model.config import ALL_SETTINGS, load
from stratamq.node import composition


def test_defaults_agree() -> None:
    config = load()
    assert composition.engine_limits(config) == EngineLimits()
    assert composition.meta_limits(config) == MetaLimits()
    assert composition.topic_timeouts(config) == TopicTimeouts()


@pytest.mark.parametrize("field", [field.name for field in fields(EngineLimits)])
def test_each_engine_limit_can_be_set(field: str) -> None:
    changed = {name: _other(name) for name in load().values if not name.startswith("topic.")}
    set_up = composition.engine_limits(load(flags=changed))
    assert getattr(set_up, field) != getattr(EngineLimits(), field)


@pytest.mark.parametrize("field", [field.name for field in fields(MetaLimits)])
def test_each_metadata_limit_can_be_set(field: str) -> None:
    changed = {name: _other(name) for name in load().values if name.startswith("meta.")}
    set_up = composition.meta_limits(load(flags=changed))
    assert getattr(set_up, field) != getattr(MetaLimits(), field)


def _other(name: str) -> object:
    """A value that is allowed and is not the default."""
    value = load().values[name]
    if name == "io.workers":
        return 1 if EngineLimits().workers != 1 else 2
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value - 1 if value == ALL_SETTINGS[name].maximum else value + 1
    return {"memory.full": "refuse", "log.level": "debug", "log.format": "json"}.get(name, value)
