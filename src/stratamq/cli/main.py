"""`stratamq`: the command and its sub-commands.

Typer reads every flag of every command that it is given, and each has a hundred of them: a node
that starts is given its own command only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from stratamq.cli.flags import with_config

HELP = "A message queue whose storage is the product."


def add_server(app: typer.Typer) -> None:
    from stratamq.cli.server import run_server

    app.command("server")(with_config(run_server))


def add_config(app: typer.Typer) -> None:
    from stratamq.cli.config import print_config

    app.command("config")(with_config(print_config))


def add_doctor(app: typer.Typer) -> None:
    from stratamq.cli.doctor import print_findings

    app.command("doctor")(with_config(print_findings))


def add_user(app: typer.Typer) -> None:
    from stratamq.cli.user import user_app

    app.add_typer(user_app, name="user")


def add_pipeline(app: typer.Typer) -> None:
    from stratamq.cli.pipeline import pipeline_app

    app.add_typer(pipeline_app, name="pipeline")


def add_spark(app: typer.Typer) -> None:
    from stratamq.cli.spark import spark_app

    app.add_typer(spark_app, name="spark")


def add_lake(app: typer.Typer) -> None:
    from stratamq.cli.lake import lake_app

    app.add_typer(lake_app, name="lake")


def add_version(app: typer.Typer) -> None:
    @app.command("version")
    def print_version() -> None:
        """Print the version."""
        import importlib.metadata

        typer.echo(importlib.metadata.version("stratamq"))


COMMANDS: dict[str, Callable[[typer.Typer], None]] = {
    "server": add_server,
    "config": add_config,
    "doctor": add_doctor,
    "user": add_user,
    "lake": add_lake,
    "pipeline": add_pipeline,
    "spark": add_spark,
    "version": add_version,
}


def application(asked: str) -> typer.Typer:
    """With the command that is asked for; with all of them, where it is none of them."""
    app = typer.Typer(
        name="stratamq",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=HELP)(lambda: None)  # a single command needs its name, too
    for name in [asked] if asked in COMMANDS else COMMANDS:
        COMMANDS[name](app)
    return app


app = application(sys.argv[1] if len(sys.argv) > 1 else "")
