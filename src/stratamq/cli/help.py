"""Help in plain text: no flag's name, no command's name and no sentence is ever cut off."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

WHOLE = 10_000
"""More characters than any first sentence has."""


_TYPE = re.compile(r" <(?:list\[)?([^\]>]+)\]?>$")
_RANGE = re.compile(r"(?:; |  \[)x(?:>=|<=)[^\]]*\]$")
_VALUES = {"int": "N", "int range": "N", "float": "N", "float range": "N", "str": "TEXT"}


def _plain(record: tuple[str, str], *, is_argument: bool) -> tuple[str, str]:
    """An option and what it is for, in a user's words: `--count N`, not `--count <int range>`."""
    name, text = record
    if found := _TYPE.search(name):
        value = "" if is_argument else " " + _VALUES.get(found[1], found[1])
        name = name[: found.start()] + value
    return name, _RANGE.sub(lambda one: "]" if one[0].startswith(";") else "", text)


class PlainCommand(TyperCommand):
    """Help in the sections that options name."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                is_argument = parameter.param_type_name == "argument"
                title = "Arguments" if is_argument else "Options"
                panel = getattr(parameter, "rich_help_panel", None)
                plain = _plain(record, is_argument=is_argument)
                sections.setdefault(panel or title, []).append(plain)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class PlainGroup(TyperGroup):
    """Commands with their first sentences, on as many lines as these take."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, one.get_short_help_str(WHOLE))
            for name, one in found
            if one is not None and not one.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
