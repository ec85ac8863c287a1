"""Commands on a running node: the flags that all of them have, one way to answer, one to fail.

    @on_node(topic_app, "list")
    async def list_topics(invocation: Invocation) -> Report: ...

A command is a coroutine. It returns what `--json` prints and the lines that people see, or prints
for itself and returns None.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from stratamq.cli.failing import Exit, UsageError, fail, refuse
from stratamq.cli.help import PlainCommand
from stratamq.cli.profiles import options_for
from stratamq.cli.specs import pairs
from stratamq.client.client import Client
from stratamq.client.options import SETTINGS
from stratamq.model.errors import StrataError


class Invocation(NamedTuple):
    """What a command is given besides its own arguments."""

    client: Client
    as_json: bool


class Report(NamedTuple):
    """What a command found: as `--json` prints it, and as lines for people."""

    data: Mapping[str, object]
    lines: Iterable[str]


NODE_PANEL = "Node"
SERVER = Annotated[
    str | None,
    typer.Option(
        "--server",
        "--servers",
        metavar="HOST:PORT",
        help="The node; several with commas. Default: the profile's, or localhost:9092.",
        rich_help_panel=NODE_PANEL,
        show_default=False,
    ),
]
PROFILE = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Address and login of this name in the profiles file (see docs/cli.md).",
        rich_help_panel=NODE_PANEL,
        show_default=False,
    ),
]
PROPERTY = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME=VALUE",
        help=f"A setting of the client; may be repeated. Names: {', '.join(SETTINGS)}.",
        rich_help_panel=NODE_PANEL,
        show_default=False,
    ),
]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON of a stable shape.")]
DEBUG = Annotated[bool, typer.Option("--debug", help="Show the stack trace of a failure.")]

COMMON: dict[str, tuple[object, object]] = {
    "as_json": (JSON, False),
    "debug": (DEBUG, False),
    "server": (SERVER, None),
    "profile": (PROFILE, None),
    "property": (PROPERTY, None),
}

Work = Callable[..., Awaitable[Report | None]]
F = TypeVar("F", bound=Callable[..., Any])


def on_node(app: typer.Typer, name: str, **settings: Any) -> Callable[[Work], Work]:
    """Make a coroutine a command of `app`, with the flags of all commands on a node.

    Typer reads a command's signature, so the flags are put there.
    """
    return with_common(app, name, COMMON, run, **settings)


def with_common(
    app: typer.Typer,
    name: str,
    common: Mapping[str, tuple[object, object]],
    run: Callable[..., None],
    **settings: Any,
) -> Callable[[F], F]:
    """Make a function a command of `app`, with the flags of `common` besides its own. `run` gets a
    function of one argument, which calls the command, and the values of those flags."""

    def add(work: F) -> F:
        @functools.wraps(work)
        def command(**given: Any) -> None:
            flags = {name: given.pop(name) for name in common}
            run(lambda first: work(first, **given), **flags)

        own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
        keyword = inspect.Parameter.KEYWORD_ONLY
        shared = [
            inspect.Parameter(name, keyword, default=default, annotation=annotation)
            for name, (annotation, default) in common.items()
        ]
        parameters = [*(one.replace(kind=keyword) for one in own), *shared]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        app.command(name, cls=PlainCommand, **settings)(command)
        return work

    return add


def run(
    work: Callable[[Invocation], Awaitable[Report | None]],
    *,
    as_json: bool,
    debug: bool,
    server: str | None,
    profile: str | None,
    property: Sequence[str] | None,
) -> None:
    """Connect, do it, print the report. A failure is a sentence and an exit code."""

    async def connected() -> Report | None:
        options = options_for(server, profile, properties_of(property or ()), os.environ)
        async with Client(options) as client:
            return await work(Invocation(client, as_json))

    with as_sentences(debug):
        report = asyncio.run(connected())
        if report is not None:
            show(report, as_json=as_json)
            sys.stdout.flush()


@contextmanager
def as_sentences(debug: bool) -> Iterator[None]:
    """A failure is one sentence on standard error and an exit code; with `debug`, it is raised."""
    try:
        yield
    except StrataError as error:
        if debug:
            raise
        raise refuse(error) from None
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None
    except BrokenPipeError:
        end_quietly()
    except OSError as error:
        if debug:
            raise
        raise fail(error) from None


def properties_of(given: Iterable[str]) -> dict[str, str]:
    properties = pairs(given, "--property")
    for name in properties:
        if name not in SETTINGS:
            raise UsageError(f"--property {name!r} is not one of {', '.join(SETTINGS)}")
    return properties


def show(report: Report, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.data, ensure_ascii=False, indent=2))
        return
    for line in report.lines:
        typer.echo(line)


def end_quietly() -> None:
    """The reader of a pipe has gone. Python would complain at exit about what is left unsent."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(Exit.PIPE_CLOSED)


YES = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def confirm(question: str, yes: bool) -> None:
    """Ask on a terminal; elsewhere `--yes` has to be given. A no ends the command."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Give --yes: standard input is not a terminal to ask on.")
    if not typer.confirm(question, err=True):
        sys.stderr.write("stratamq: nothing was changed\n")
        raise SystemExit(Exit.FAILED)
