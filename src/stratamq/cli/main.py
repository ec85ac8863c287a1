"""`stratamq`: the command and its sub-commands."""

from __future__ import annotations

import typer

from stratamq.cli.config import print_config
from stratamq.cli.doctor import print_findings
from stratamq.cli.flags import with_config
from stratamq.cli.server import run_server
from stratamq.cli.user import user_app

app = typer.Typer(
    name="stratamq",
    help="A message queue whose storage is the product.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("server")(with_config(run_server))
app.command("config")(with_config(print_config))
app.command("doctor")(with_config(print_findings))
app.add_typer(user_app, name="user")


@app.command("version")
def print_version() -> None:
    """Print the version."""
    import importlib.metadata  # takes a tenth of a node's start, for this command alone

    typer.echo(importlib.metadata.version("stratamq"))
