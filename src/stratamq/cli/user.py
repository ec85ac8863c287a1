"""`stratamq user`: users who may log in, on a running node or in the data folder of a stopped one.

The first user has to be created before any client can log in to create one: with `--data-dir`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stratamq.cli.command import YES, Invocation, Report, confirm, on_node
from stratamq.cli.failing import UsageError
from stratamq.cli.tables import table
from stratamq.client.admin import access
from stratamq.client.admin.access import MECHANISMS
from stratamq.model.errors import InvalidInput

user_app = typer.Typer(
    help="Users who may log in: list, add, remove.", no_args_is_help=True, rich_markup_mode=None
)

ITERATIONS = 4096
STOPPED_PANEL = "Stopped node"

Name = Annotated[str, typer.Argument(help="The user's name.", metavar="USER", show_default=False)]
Only = Annotated[
    str | None,
    typer.Option(
        "--mechanism",
        metavar="|".join(MECHANISMS),
        help="Only this one. Default: both.",
        show_default=False,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="The data folder of a node that is not running, instead of a running node.",
        rich_help_panel=STOPPED_PANEL,
        show_default=False,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The TOML file of a node that is not running; it names the data folder.",
        rich_help_panel=STOPPED_PANEL,
        show_default=False,
    ),
]


@on_node(user_app, "list")
async def list_users(
    invocation: Invocation, data_dir: DataDir = None, config: ConfigFile = None
) -> Report:
    """List users with their mechanisms and rounds of hashing."""
    if data_dir or config:
        from stratamq.cli.stopped_node import StoppedNode

        found = await StoppedNode.of(data_dir, config).list_users()
    else:
        found = await access.list_users(invocation.client.router)
    data = [
        {"name": one.user, "mechanism": one.mechanism, "iterations": one.iterations}
        for one in found
    ]
    lines = table(("user", "mechanism", "iterations"), found) if found else ["no users"]
    return Report({"users": data}, lines)


@on_node(user_app, "add")
async def add_user(
    invocation: Invocation,
    name: Name,
    mechanism: Only = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            "--scram-iterations",
            show_default=False,
            help=f"Rounds of hashing, 4096 to 16384. Default: {ITERATIONS}; of a stopped node, "
            "its scram.iterations.",
        ),
    ] = None,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> Report:
    """Add a user, or give one a new password, which is asked for or read from standard input."""
    wanted = _mechanisms(mechanism)
    password = _password()
    if data_dir or config:
        from stratamq.cli.stopped_node import StoppedNode

        await StoppedNode.of(data_dir, config).save_user(name, password, wanted, iterations)
    else:
        router = invocation.client.router
        await access.save_user(router, name, password, wanted, iterations or ITERATIONS)
    return Report(
        {"user": name, "mechanisms": wanted},
        [f"{name} can log in with PLAIN, {', '.join(wanted)}"],
    )


@on_node(user_app, "remove")
async def remove_user(
    invocation: Invocation,
    name: Name,
    mechanism: Only = None,
    data_dir: DataDir = None,
    config: ConfigFile = None,
    yes: YES = False,
) -> Report:
    """Remove a user. Access rules and quotas for the name stay."""
    if data_dir or config:
        from stratamq.cli.stopped_node import StoppedNode

        stopped = StoppedNode.of(data_dir, config)
        gone = await stopped.remove_user(name, _mechanisms(mechanism))
    else:
        router = invocation.client.router
        known = [one.mechanism for one in await access.list_users(router, [name])]
        gone = [mechanism] if mechanism else known
        confirm(f"Remove user {name}?", yes)
        await access.delete_user(router, name, gone)
    return Report({"user": name, "removed": gone}, [f"{name} is gone: {', '.join(gone)}"])


def _mechanisms(only: str | None) -> list[str]:
    if only is None:
        return list(MECHANISMS)
    if only not in MECHANISMS:
        raise UsageError(f"--mechanism {only!r} is not one of {', '.join(MECHANISMS)}")
    return [only]


def _password() -> bytes:
    """Never from an argument: all users of the machine can see those."""
    if sys.stdin.isatty():
        given = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if not given:
        raise InvalidInput("a password cannot be empty")
    return given.encode()
