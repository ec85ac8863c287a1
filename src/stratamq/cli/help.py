"""Help in plain text: no flag's name, no command's name and no sentence is ever cut off."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

WHOLE = 10_000
"""More characters than any first sentence has."""


class PlainCommand(TyperCommand):
    """Help in the sections that options name."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                is_argument = parameter.param_type_name == "argument"
                title = "Arguments" if is_argument else "Options"
                panel = getattr(parameter, "rich_help_panel", None)
                sections.setdefault(panel or title, []).append(record)
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
