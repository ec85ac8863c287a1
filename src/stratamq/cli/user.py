"""`stratamq user`: who may log in, on the data folder of a node that is not running.

The first user has to be created before any client can log in to create one. On a running node,
users are changed by Kafka's own tools (AlterUserScramCredentials).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from stratamq.broker.kafka.security.scram import new_credential
from stratamq.cli.failing import fail
from stratamq.cli.flags import with_config
from stratamq.meta.access import DeleteCredential, Mechanism, SaveCredential
from stratamq.meta.service import MetaService
from stratamq.meta.store import RocksMetaStore
from stratamq.model.config import NodeConfig
from stratamq.model.errors import InvalidInput, NotFound, StrataError
from stratamq.node.composition import META_FOLDER, meta_limits
from stratamq.node.data_dir import DataDirLock

user_app = typer.Typer(
    help="Users who may log in: list, add, remove.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[str, typer.Argument(help="The user's name.", show_default=False)]
Only = Annotated[
    Mechanism | None,
    typer.Option("--mechanism", help="Only this one. Default: both.", show_default=False),
]


def add_user(config: NodeConfig, name: Name, mechanism: Only = None) -> None:
    """Add a user, or give one a new password, which is asked for or read from standard input."""
    password = _password()
    wanted = list(Mechanism) if mechanism is None else [mechanism]

    async def add(meta: MetaService) -> str:
        iterations = config.number("scram.iterations")
        saved = [new_credential(name, one, password, iterations) for one in wanted]
        await meta.submit(*(SaveCredential(credential=one) for one in saved))
        return f"{name} can log in with PLAIN, {', '.join(wanted)}"

    _run(config, add)


def remove_user(config: NodeConfig, name: Name) -> None:
    """Remove a user. Access rules and quotas for the name stay."""

    async def remove(meta: MetaService) -> str:
        found = [one for one in meta.state.credentials if one.user == name]
        if not found:
            raise NotFound(f"no user {name!r}")
        await meta.submit(*(DeleteCredential(user=name, mechanism=one.mechanism) for one in found))
        return f"{name} is gone"

    _run(config, remove)


def list_users(config: NodeConfig) -> None:
    """List the users, with their mechanisms and rounds of hashing."""

    async def listed(meta: MetaService) -> str:
        found = sorted(meta.state.credentials.values(), key=lambda one: one.key)
        return "\n".join(_columns((one.user, one.mechanism, one.iterations) for one in found))

    _run(config, listed)


user_app.command("add")(with_config(add_user))
user_app.command("remove")(with_config(remove_user))
user_app.command("list")(with_config(list_users))


def _columns(rows: Iterable[tuple[object, ...]]) -> Iterable[str]:
    return ("\t".join(map(str, row)) for row in rows)


def _password() -> bytes:
    """Never from an argument: all users of the machine can see those."""
    if sys.stdin.isatty():
        given = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if not given:
        raise fail(InvalidInput("a password cannot be empty"))
    return given.encode()


def _run(config: NodeConfig, action: Callable[[MetaService], Awaitable[str]]) -> None:
    async def run() -> str:
        async with _metadata(config) as meta:
            return await action(meta)

    try:
        if text := asyncio.run(run()):
            typer.echo(text)
    except (StrataError, OSError) as error:
        raise fail(error) from None


@asynccontextmanager
async def _metadata(config: NodeConfig) -> AsyncIterator[MetaService]:
    """The folder's metadata, for us alone."""
    lock = DataDirLock(config.data_dir)
    lock.acquire()
    meta = MetaService(RocksMetaStore(config.data_dir / META_FOLDER), limits=meta_limits(config))
    try:
        await meta.open()
        yield meta
    finally:
        await meta.close()
        lock.release()
