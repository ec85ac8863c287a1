"""`stratamq config`: what the node would run with, and where each value came from."""

from __future__ import annotations

import json

from stratamq.cli.command import JSON, Report, show
from stratamq.cli.flags import shown
from stratamq.model.config import TOPIC_PREFIX, NodeConfig
from stratamq.model.settings.setting import Value


def print_config(config: NodeConfig, as_json: JSON = False) -> None:
    """Print the effective configuration as a TOML file, with the source of each value."""
    data = {
        name: {"value": value, "source": config.sources[name]}
        for name, value in config.values.items()
    }
    show(Report({"settings": data}, as_toml(config)), as_json=as_json)


def as_toml(config: NodeConfig) -> list[str]:
    """Lines that read back as the same configuration.

    Names below `[topic]` are quoted: `flush` is a value there and cannot also be a table.
    """
    node = [name for name in config.values if not name.startswith(TOPIC_PREFIX)]
    topic = [name for name in config.values if name.startswith(TOPIC_PREFIX)]
    return [
        *(_line(config, name, name) for name in node),
        "",
        "[topic]",
        *(_line(config, name, json.dumps(name.removeprefix(TOPIC_PREFIX))) for name in topic),
    ]


def _line(config: NodeConfig, name: str, key: str) -> str:
    return f"{key} = {_literal(config.values[name])}  # {config.sources[name]}"


def _literal(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else shown(value)
