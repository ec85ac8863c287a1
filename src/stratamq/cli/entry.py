"""The way into the command.

A node that starts takes the short way. Typer and what it stands on take longer to import than the
node itself; a command of `server` and known flags needs none of it. Anything
else, a question for help or a slip, is Typer's. Settings are read only for `server`: a command on a
running node has no use for them.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

FILE = "--config"


def main() -> None:
    flags = plain_flags(sys.argv[1:])
    try:
        if flags is None:
            from stratamq.cli.main import app

            app(prog_name="stratamq")
        else:
            start(flags)
    except ModuleNotFoundError as error:
        from stratamq.cli.failing import fail, not_installed

        refusal = not_installed(error)
        if refusal is None:
            raise
        raise fail(refusal) from None


def plain_flags(words: Sequence[str]) -> dict[str, str] | None:
    """What `server` was given, by flag; None when that is for Typer to judge."""
    if not words or words[0] != "server":
        return None
    from stratamq.model.config import ALL_SETTINGS, flag_name

    known = {flag_name(name) for name in ALL_SETTINGS}
    given: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        flag, is_joined, value = word.partition("=")
        if not is_joined:
            value = next(rest, "")
        is_flag = value.startswith("-") and not value[1:].isdigit()  # -1 is a value
        if (flag not in known and flag != FILE) or not value or is_flag:
            return None
        given[flag] = value
    return given


def start(given: dict[str, str]) -> None:
    gc.disable()  # nothing that a start makes is garbage; `run_server` turns it on when it is ready
    from stratamq.cli.failing import EXIT_USAGE, fail
    from stratamq.cli.server import run_server
    from stratamq.model.config import ALL_SETTINGS, flag_name, load
    from stratamq.model.errors import InvalidConfig

    names = {flag_name(name): name for name in ALL_SETTINGS}
    file = given.pop(FILE, None)
    try:
        settings = {names[flag]: value for flag, value in given.items()}
        config = load(Path(file) if file else None, os.environ, settings)
    except InvalidConfig as error:
        raise fail(error, EXIT_USAGE) from None
    run_server(config)
