"""Every setting as a flag of the same name.

The flags are made from the settings table, so a new setting has its flag at once. Values stay text
until `stratamq.model.config` parses them: a flag, a variable and the file get the same complaint.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from stratamq.cli.failing import EXIT_USAGE, fail
from stratamq.model.config import ALL_SETTINGS, TOPIC_PREFIX, NodeConfig, flag_name, load
from stratamq.model.errors import InvalidConfig
from stratamq.model.settings.node import GROUPS
from stratamq.model.settings.setting import Setting, Value

_PANELS = {setting.name: title for title, group in GROUPS.items() for setting in group}


def with_config(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all settings as flags. Its first argument is the `NodeConfig` they make.

    Typer reads a command's signature, so the flags are put there.
    """

    @functools.wraps(command)
    def with_flags(**given: Any) -> None:
        own = {name: given.pop(name) for name in _own_parameters(command)}
        file = given.pop("config")
        command(_loaded(file, given), **own)

    parameters = [
        *_own_parameters(command).values(),
        _file_flag(),
        *map(_flag, ALL_SETTINGS.values()),
    ]
    with_flags.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_flags.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_flags


def _loaded(file: Path | None, given: dict[str, str | None]) -> NodeConfig:
    flags = {_SETTING[name]: value for name, value in given.items() if value is not None}
    try:
        return load(file, os.environ, flags)
    except InvalidConfig as error:
        raise fail(error, EXIT_USAGE) from None


def _own_parameters(command: Callable[..., None]) -> dict[str, inspect.Parameter]:
    """What a command takes besides the configuration."""
    found = inspect.signature(command, eval_str=True).parameters
    return dict(list(found.items())[1:])


def _parameter_name(name: str) -> str:
    return "set_" + name.replace(".", "_")


_SETTING = {_parameter_name(name): name for name in ALL_SETTINGS}


def _file_flag() -> inspect.Parameter:
    option = typer.Option("--config", metavar="FILE", help="TOML file with settings.")
    return _keyword("config", Annotated[Path | None, option])


def _flag(setting: Setting) -> inspect.Parameter:
    topic = setting.name.startswith(TOPIC_PREFIX)
    option = typer.Option(
        flag_name(setting.name),
        help=f"{setting.doc} Default: {shown(setting.default)}.",
        metavar="|".join(setting.choices) or ("N" if type(setting.default) is int else "VALUE"),
        rich_help_panel="Topic defaults" if topic else _PANELS[setting.name],
        show_default=False,
    )
    return _keyword(_parameter_name(setting.name), Annotated[str | None, option])


def shown(value: Value) -> str:
    """A value as it may be given."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _keyword(name: str, annotation: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=annotation)
