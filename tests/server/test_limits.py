"""Every limit of the Kafka front is a setting of the node, with the same default."""

from __future__ import annotations

from dataclasses import fields

import pytest

from stratamq.model.config import load
from stratamq.net.listener import ConnectionLimits
from stratamq.node.kafka import server_limits
from stratamq.server.kafka.server import ServerLimits

FIXED = {"unsent_high_bytes", "unsent_low_bytes", "backlog"}
"""Properties of the code, not of an installation."""

CHANGED = load(
    flags={
        name: value + 1
        for name, value in load().values.items()
        if name.startswith("kafka.") and type(value) is int
    }
)


def test_defaults_agree() -> None:
    assert server_limits(load()) == ServerLimits()


@pytest.mark.parametrize("name", [one.name for one in fields(ServerLimits)])
def test_each_can_be_set(name: str) -> None:
    assert getattr(server_limits(CHANGED), name) != getattr(ServerLimits(), name)


@pytest.mark.parametrize(
    "name", [one.name for one in fields(ConnectionLimits) if one.name not in FIXED]
)
def test_each_of_connections_can_be_set(name: str) -> None:
    changed = server_limits(CHANGED).connections
    assert getattr(changed, name) != getattr(ConnectionLimits(), name)
