"""`stratamq`: the command and its sub-commands.

Typer reads every flag of every command that it is given, and some have a hundred of them: only the
command that is asked for is imported. `help` says how they are described.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from stratamq.cli.failing import fail, not_installed
from stratamq.cli.help import PlainCommand, PlainGroup
from stratamq.model.version import own_version

ANY_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}
HELP = "A message queue whose storage is the product."


def add_server(app: typer.Typer) -> None:
    from stratamq.cli.flags import with_config
    from stratamq.cli.server import run_server

    app.command("server", cls=PlainCommand)(with_config(run_server))


def add_config(app: typer.Typer) -> None:
    from stratamq.cli.config import print_config
    from stratamq.cli.flags import with_config

    app.command("config", cls=PlainCommand)(with_config(print_config))


def add_doctor(app: typer.Typer) -> None:
    from stratamq.cli.doctor import print_findings
    from stratamq.cli.flags import with_config

    app.command("doctor", cls=PlainCommand)(with_config(print_findings))


def add_topic(app: typer.Typer) -> None:
    from stratamq.cli.topic import topic_app

    app.add_typer(topic_app, name="topic", cls=PlainGroup)


def add_produce(app: typer.Typer) -> None:
    from stratamq.cli.command import on_node
    from stratamq.cli.produce import produce

    on_node(app, "produce")(produce)


def add_consume(app: typer.Typer) -> None:
    from stratamq.cli.command import on_node
    from stratamq.cli.consume import consume

    on_node(app, "consume")(consume)


def add_delete(app: typer.Typer) -> None:
    from stratamq.cli.command import on_node
    from stratamq.cli.delete import delete_records

    on_node(app, "delete")(delete_records)


def add_group(app: typer.Typer) -> None:
    from stratamq.cli.command import on_node
    from stratamq.cli.group import group_app
    from stratamq.cli.group_reset import reset_offsets

    on_node(group_app, "reset")(reset_offsets)
    app.add_typer(group_app, name="group", cls=PlainGroup)


def add_user(app: typer.Typer) -> None:
    from stratamq.cli.user import user_app

    app.add_typer(user_app, name="user", cls=PlainGroup)


def add_acl(app: typer.Typer) -> None:
    from stratamq.cli.acl import acl_app

    app.add_typer(acl_app, name="acl", cls=PlainGroup)


def add_quota(app: typer.Typer) -> None:
    from stratamq.cli.quota import quota_app

    app.add_typer(quota_app, name="quota", cls=PlainGroup)


def add_pipeline(app: typer.Typer) -> None:
    from stratamq.cli.pipeline import pipeline_app

    app.add_typer(pipeline_app, name="pipeline", cls=PlainGroup)


def add_spark(app: typer.Typer) -> None:
    from stratamq.cli.spark import spark_app

    app.add_typer(spark_app, name="spark", cls=PlainGroup)


def add_lake(app: typer.Typer) -> None:
    from stratamq.cli.lake import lake_app

    app.add_typer(lake_app, name="lake", cls=PlainGroup)


def add_tier(app: typer.Typer) -> None:
    from stratamq.cli.tier import tier_app

    app.add_typer(tier_app, name="tier", cls=PlainGroup)


def add_shard(app: typer.Typer) -> None:
    from stratamq.cli.shard import shard_app

    app.add_typer(shard_app, name="shard", cls=PlainGroup)


def add_segment(app: typer.Typer) -> None:
    from stratamq.cli.segment import segment_app

    app.add_typer(segment_app, name="segment", cls=PlainGroup)


def add_backup(app: typer.Typer) -> None:
    from stratamq.cli.backup import make_backup
    from stratamq.cli.command import on_node

    on_node(app, "backup")(make_backup)


def add_restore(app: typer.Typer) -> None:
    from stratamq.cli.restore import add_restore

    add_restore(app)


def add_version(app: typer.Typer) -> None:
    @app.command("version")
    def print_version(
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    ) -> None:
        """Print the version."""
        version = own_version()
        typer.echo(f'{{"version": "{version}"}}' if as_json else version)


COMMANDS: dict[str, Callable[[typer.Typer], None]] = {
    "server": add_server,
    "config": add_config,
    "doctor": add_doctor,
    "topic": add_topic,
    "produce": add_produce,
    "consume": add_consume,
    "delete": add_delete,
    "group": add_group,
    "user": add_user,
    "acl": add_acl,
    "quota": add_quota,
    "tier": add_tier,
    "lake": add_lake,
    "shard": add_shard,
    "segment": add_segment,
    "backup": add_backup,
    "restore": add_restore,
    "pipeline": add_pipeline,
    "spark": add_spark,
    "version": add_version,
}


def print_version_and_end(is_asked: bool) -> None:
    if is_asked:
        typer.echo(own_version())
        raise typer.Exit


def top(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=print_version_and_end, is_eager=True
        ),
    ] = False,
) -> None:
    """The command without a sub-command: it has only flags that end it."""


def application(asked: str) -> typer.Typer:
    """With the command that is asked for; with all of them, where it is none of them."""
    app = typer.Typer(
        name="stratamq",
        cls=PlainGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=HELP)(top)  # a single command needs its name, too
    for name in [asked] if asked in COMMANDS else COMMANDS:
        try:
            COMMANDS[name](app)
        except ModuleNotFoundError as error:
            add_missing(app, name, error)
    return app


def add_missing(app: typer.Typer, name: str, error: ModuleNotFoundError) -> None:
    """A command whose packages are not installed stays in the help and says what to install."""
    refusal = not_installed(error)
    if refusal is None:
        raise error

    @app.command(name, cls=PlainCommand, add_help_option=False, context_settings=ANY_WORDS)
    def say_it() -> None:
        raise fail(refusal)

    say_it.__doc__ = str(refusal)


def asked_command(words: Sequence[str], env: Mapping[str, str]) -> str:
    """The sub-command of a command line; while a shell completes one, of that line so far."""
    completed = env.get("_TYPER_COMPLETE_ARGS") or env.get("COMP_WORDS")
    if "_STRATAMQ_COMPLETE" in env and completed:
        words = completed.split()
        return words[1] if len(words) > 2 or (completed[-1:].isspace() and len(words) > 1) else ""
    return words[1] if len(words) > 1 else ""


app = application(asked_command(sys.argv, os.environ))
