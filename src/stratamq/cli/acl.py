"""`stratamq acl`: the access rules of a running node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from stratamq.cli.command import YES, Invocation, Report, confirm, on_node
from stratamq.cli.failing import UsageError
from stratamq.cli.tables import counted, table
from stratamq.client import Client
from stratamq.client.admin.access import RuleFilter, add_rules, delete_rules, list_rules
from stratamq.client.failures import Refusal
from stratamq.model.access import (
    ANYWHERE,
    CLUSTER_NAME,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)
from stratamq.model.errors import NotFound
from stratamq.wire.kafka.protocol import ErrorCode

acl_app = typer.Typer(
    help="Access rules: list, add, remove.", no_args_is_help=True, rich_markup_mode=None
)

TITLES = ("principal", "permission", "operation", "resource", "name", "pattern", "host")


class OperationName(StrEnum):
    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster-action"
    DESCRIBE_CONFIGS = "describe-configs"
    ALTER_CONFIGS = "alter-configs"
    IDEMPOTENT_WRITE = "idempotent-write"


Principal = Annotated[
    str | None,
    typer.Option(
        "--principal",
        metavar="USER",
        show_default=False,
        help="The user: alice, or User:alice; User:* for everyone.",
    ),
]
Operations = Annotated[
    list[OperationName] | None,
    typer.Option("--operation", "-o", help="May be repeated.", show_default=False),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", help="A topic, * for all; may be repeated.", show_default=False),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", help="A group, * for all; may be repeated.", show_default=False),
]
Transactions = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", help="May be repeated.", show_default=False),
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="Names are prefixes of names.")]
Deny = Annotated[bool, typer.Option("--deny", help="Rules that deny.")]
Host = Annotated[
    str | None, typer.Option("--host", help="The client's address.", show_default=False)
]

Resource = tuple[ResourceKind, str]


@on_node(acl_app, "list")
async def list_access_rules(
    invocation: Invocation,
    principal: Principal = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: Transactions = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    deny: Deny = False,
    host: Host = None,
) -> Report:
    """List rules: all, or those that apply to a user or a resource."""
    resources = _resources(topic, group, transactional_id, cluster)
    pattern = PatternType.PREFIXED if prefixed else PatternType.MATCH
    wanted = _filters(resources, pattern, principal, operation, deny, host)
    rules = await _found(invocation.client, wanted)
    return Report(
        {"rules": [_rule(one) for one in rules]}, _lines(rules) if rules else ["no rules"]
    )


@on_node(acl_app, "add")
async def add_access_rules(
    invocation: Invocation,
    principal: Principal = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: Transactions = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    deny: Deny = False,
    host: Host = None,
) -> Report:
    """Allow (or --deny) operations on topics, groups, transactional ids or the cluster."""
    resources = _resources(topic, group, transactional_id, cluster)
    if not principal or not operation or not resources:
        raise UsageError(
            "a rule needs --principal, --operation and a resource: --topic, --group, "
            "--transactional-id or --cluster"
        )
    rules = [
        AclRule(
            kind=kind,
            pattern=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
            name=name,
            principal=_user(principal),
            host=host or ANYWHERE,
            operation=_number(one),
            permission=Permission.DENY if deny else Permission.ALLOW,
        )
        for kind, name in resources
        for one in dict.fromkeys(operation)
    ]
    with _advised():
        await add_rules(invocation.client.router, rules)
    return Report(
        {"added": [_rule(one) for one in rules]},
        [*_lines(rules), f"{counted(len(rules), 'rule')} added"],
    )


@on_node(acl_app, "remove")
async def remove_access_rules(
    invocation: Invocation,
    principal: Principal = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: Transactions = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    deny: Deny = False,
    host: Host = None,
    yes: YES = False,
) -> Report:
    """Remove all rules that have what is given: shows them and asks."""
    resources = _resources(topic, group, transactional_id, cluster)
    if not (principal or resources):
        raise UsageError("which rules? Give --principal or a resource")
    pattern = PatternType.ANY
    if resources:
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    wanted = _filters(resources, pattern, principal, operation, deny, host)
    rules = await _found(invocation.client, wanted)
    if not rules:
        raise NotFound("no rule is like that: `stratamq acl list` shows all")
    listed = _lines(rules)
    confirm("\n".join([*listed, f"Remove {counted(len(rules), 'rule')}?"]), yes)
    for one in wanted:
        await delete_rules(invocation.client.router, one)
    return Report(
        {"removed": [_rule(one) for one in rules]},
        [*listed, f"{counted(len(rules), 'rule')} removed"],
    )


def _resources(
    topics: Iterable[str] | None,
    groups: Iterable[str] | None,
    transactions: Iterable[str] | None,
    cluster: bool,
) -> list[Resource]:
    return [
        *((ResourceKind.TOPIC, name) for name in topics or ()),
        *((ResourceKind.GROUP, name) for name in groups or ()),
        *((ResourceKind.TRANSACTIONAL_ID, name) for name in transactions or ()),
        *([(ResourceKind.CLUSTER, CLUSTER_NAME)] if cluster else ()),
    ]


def _filters(
    resources: Sequence[Resource],
    pattern: PatternType,
    principal: str | None,
    operations: Sequence[OperationName] | None,
    deny: bool,
    host: str | None,
) -> list[RuleFilter]:
    """One for each resource and operation; without a resource, for all."""
    chosen: Sequence[tuple[ResourceKind, str | None]] = resources or [(ResourceKind.ANY, None)]
    return [
        RuleFilter(
            kind=kind,
            name=name,
            pattern=PatternType.ANY if name is None else pattern,
            principal=_user(principal) if principal else None,
            host=host,
            operation=operation,
            permission=Permission.DENY if deny else Permission.ANY,
        )
        for kind, name in chosen
        for operation in ([_number(one) for one in operations or ()] or [Operation.ANY])
    ]


async def _found(client: Client, wanted: Iterable[RuleFilter]) -> list[AclRule]:
    with _advised():
        return sorted({rule for one in wanted for rule in await list_rules(client.router, one)})


@contextmanager
def _advised() -> Iterator[None]:
    try:
        yield
    except Refusal as error:
        if error.code == ErrorCode.SECURITY_DISABLED:
            error.add_note("Rules count on a node that was started with --authorizer acl.")
        raise


def _lines(rules: Iterable[AclRule]) -> list[str]:
    return table(TITLES, [list(_rule(one).values()) for one in rules])


def _rule(rule: AclRule) -> dict[str, str]:
    return {
        "principal": rule.principal,
        "permission": _word(rule.permission.name),
        "operation": _word(rule.operation.name),
        "resource": _word(rule.kind.name),
        "name": rule.name,
        "pattern": _word(rule.pattern.name),
        "host": rule.host,
    }


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def _number(operation: OperationName) -> Operation:
    return Operation[operation.name]


def _user(principal: str) -> str:
    return principal if ":" in principal else f"User:{principal}"
