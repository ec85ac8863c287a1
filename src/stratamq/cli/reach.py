"""How a command reaches a running node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from stratamq.cli.failing import EXIT_USAGE, fail
from stratamq.client import Client, ClientOptions, options_of
from stratamq.client.options import SETTINGS
from stratamq.model.errors import InvalidConfig, StrataError

T = TypeVar("T")

Servers = Annotated[
    str,
    typer.Option(
        "--servers", metavar="HOST:PORT,...", help="Nodes to ask.", envvar="STRATAMQ_SERVERS"
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME=VALUE",
        help=f"How to log in and the like; may be repeated. Names: {', '.join(SETTINGS)}.",
        show_default=False,
    ),
]
LOCAL = "localhost:9092"


def options(servers: str, properties: list[str] | None) -> ClientOptions:
    """What the flags say; a slip in them ends the command."""
    given: dict[str, str] = {}
    for text in properties or ():
        name, is_pair, value = text.partition("=")
        if not is_pair or name not in SETTINGS:
            known = ", ".join(SETTINGS)
            slip = InvalidConfig(f"--property {text!r} is not NAME=VALUE with a name of {known}")
            raise fail(slip, EXIT_USAGE)
        given[name] = value
    try:
        return options_of(servers, given)
    except InvalidConfig as error:
        raise fail(error, EXIT_USAGE) from None


def ask(wanted: ClientOptions, question: Callable[[Client], Awaitable[T]]) -> T:
    """What `question(client)` gives; a failure is one sentence."""

    async def asked() -> T:
        async with Client(wanted) as client:
            return await question(client)

    try:
        return asyncio.run(asked())
    except StrataError as error:
        raise fail(error) from None
