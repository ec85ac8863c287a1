"""`stratamq quota`: how much users and client ids may produce, fetch and ask of a running node."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from stratamq.cli.command import YES, Invocation, Report, confirm, on_node
from stratamq.cli.failing import UsageError
from stratamq.cli.specs import pairs
from stratamq.cli.tables import table
from stratamq.client.admin.access import QuotaTarget, alter_quota, list_quotas
from stratamq.model.errors import NotFound

quota_app = typer.Typer(
    help="Quotas of users and client ids: list, set, remove.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DEFAULT = "<default>"
"""Kafka's own word for all users, or clients, without a quota of their own."""

QUOTAS = "producer_byte_rate, consumer_byte_rate, request_percentage"

User = Annotated[
    str | None,
    typer.Option("--user", help=f"A user, or '{DEFAULT}'.", show_default=False),
]
ClientId = Annotated[
    str | None,
    typer.Option("--client-id", help=f"A client id, or '{DEFAULT}'.", show_default=False),
]


@on_node(quota_app, "list")
async def list_all_quotas(
    invocation: Invocation, user: User = None, client_id: ClientId = None
) -> Report:
    """List quotas: all, or those of a user or client id."""
    found = await list_quotas(invocation.client.router)
    wanted = QuotaTarget(_name(user), _name(client_id))
    shown = {
        target: limits
        for target, limits in sorted(found.items(), key=lambda one: list(map(str, one[0])))
        if all(part in (None, ours) for part, ours in zip(wanted, target, strict=True))
    }
    data = [
        {"user": _shown(target.user), "client_id": _shown(target.client_id), "limits": limits}
        for target, limits in shown.items()
    ]
    rows = [
        (_shown(target.user), _shown(target.client_id), name, f"{value:.15g}")
        for target, limits in shown.items()
        for name, value in limits.items()
    ]
    lines = table(("user", "client id", "quota", "value"), rows) if rows else ["no quotas"]
    return Report({"quotas": data}, lines)


@on_node(quota_app, "set")
async def set_quota(
    invocation: Invocation,
    limits: Annotated[
        list[str],
        typer.Argument(help=f"Of {QUOTAS}.", metavar="NAME=VALUE...", show_default=False),
    ],
    user: User = None,
    client_id: ClientId = None,
) -> Report:
    """Set quotas of a user, a client id, or a user with a client id."""
    target = _target(user, client_id)
    put = {name: _rate(name, value) for name, value in pairs(limits, "a quota").items()}
    await alter_quota(invocation.client.router, target, put)
    said = ", ".join(f"{name}={value:.15g}" for name, value in put.items())
    return Report({**_whom(target), "set": put}, [f"{_described(target)}: {said}"])


@on_node(quota_app, "remove")
async def remove_quota(
    invocation: Invocation,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Which; all, if none is said.", metavar="NAME...", show_default=False),
    ] = None,
    user: User = None,
    client_id: ClientId = None,
    yes: YES = False,
) -> Report:
    """Remove quotas of a user, a client id, or a user with a client id."""
    target, router = _target(user, client_id), invocation.client.router
    known = (await list_quotas(router)).get(target, {})
    gone = list(dict.fromkeys(names or sorted(known)))
    missing = [name for name in gone if name not in known]
    if missing or not gone:
        raise NotFound(f"{_described(target)} has no quota {', '.join(missing)}".rstrip())
    confirm(f"Remove {', '.join(gone)} of {_described(target)}?", yes)
    await alter_quota(router, target, {}, gone)
    return Report(
        {**_whom(target), "removed": gone}, [f"{_described(target)}: {', '.join(gone)} removed"]
    )


def _target(user: str | None, client_id: str | None) -> QuotaTarget:
    if not (user or client_id):
        raise UsageError("whose quota? Give --user, --client-id or both")
    return QuotaTarget(_name(user), _name(client_id))


def _name(given: str | None) -> str | None:
    return "" if given == DEFAULT else given


def _shown(name: str | None) -> str | None:
    return DEFAULT if name == "" else name


def _rate(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{name} must be a number, not {text!r}") from None


def _whom(target: QuotaTarget) -> dict[str, Any]:
    return {"user": _shown(target.user), "client_id": _shown(target.client_id)}


def _described(target: QuotaTarget) -> str:
    parts = [("user", target.user), ("client id", target.client_id)]
    return " with ".join(f"{kind} {_shown(name)}" for kind, name in parts if name is not None)
