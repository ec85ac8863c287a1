"""Rows of access rules, users and quotas; `rows` puts them with the others."""

from __future__ import annotations

import json
from typing import Any

from stratamq.meta.access import AccessEntity, Credential, Mechanism, Quota, QuotaScope
from stratamq.model.access import AclRule, Operation, PatternType, Permission, ResourceKind

Fields = dict[str, Any]


def row_key(entity: AccessEntity) -> bytes:
    """A list as JSON: names may hold any character, so nothing else separates them."""
    match entity:
        case AclRule():
            return b"a" + _listed(*rule_fields(entity).values())
        case Credential():
            return b"u" + _listed(entity.user, entity.mechanism)
        case Quota():
            return b"q" + _listed(*entity.scope)


def _listed(*names: str | None) -> bytes:
    return json.dumps(names, separators=(",", ":")).encode()


def rule_fields(rule: AclRule) -> Fields:
    return {
        "kind": rule.kind.name.lower(),
        "pattern": rule.pattern.name.lower(),
        "name": rule.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name.lower(),
        "permission": rule.permission.name.lower(),
    }


def rule(fields: Fields) -> AclRule:
    return AclRule(
        kind=ResourceKind[fields["kind"].upper()],
        pattern=PatternType[fields["pattern"].upper()],
        name=fields["name"],
        principal=fields["principal"],
        host=fields["host"],
        operation=Operation[fields["operation"].upper()],
        permission=Permission[fields["permission"].upper()],
    )


def credential(fields: Fields) -> Credential:
    return Credential(**{**fields, "mechanism": Mechanism(fields["mechanism"])})


def quota_fields(quota: Quota) -> Fields:
    return {**quota.scope._asdict(), "limits": dict(quota.limits)}


def quota(fields: Fields) -> Quota:
    scope = QuotaScope(fields["user"], fields["client_id"])
    return Quota(scope=scope, limits={name: float(one) for name, one in fields["limits"].items()})
