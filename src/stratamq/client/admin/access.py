"""Access rules, users and quotas of a cluster."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stratamq.client.failures import check
from stratamq.client.router import Router
from stratamq.model.access import AclRule, Operation, PatternType, Permission, ResourceKind
from stratamq.wire.kafka.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from stratamq.wire.kafka.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaAlteration,
    QuotaEntity,
    QuotaOperation,
)
from stratamq.wire.kafka.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    ScramUserName,
)

# -- rules -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFilter:
    """Which rules to list or delete. What is not said matches every rule."""

    kind: ResourceKind = ResourceKind.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY


async def list_rules(router: Router, wanted: RuleFilter) -> list[AclRule]:
    """In the order of their fields."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.kind,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )

    async def once() -> list[AclRule]:
        answer = await router.ask_any(request, DescribeAclsResponse)
        check(answer.error_code, "access rules", answer.error_message)
        return sorted(
            AclRule(
                kind=ResourceKind(resource.resource_type),
                pattern=PatternType(resource.pattern_type),
                name=resource.resource_name,
                principal=one.principal,
                host=one.host,
                operation=Operation(one.operation),
                permission=Permission(one.permission_type),
            )
            for resource in answer.resources
            for one in resource.acls
        )

    return await router.retried(once)


async def add_rules(router: Router, rules: Sequence[AclRule]) -> None:
    """A rule that exists already stays as it is."""
    creations = [
        AclCreation(
            resource_type=one.kind,
            resource_name=one.name,
            resource_pattern_type=one.pattern,
            principal=one.principal,
            host=one.host,
            operation=one.operation,
            permission_type=one.permission,
        )
        for one in rules
    ]
    request = CreateAclsRequest(creations=creations)

    async def once() -> None:
        answer = await router.ask_any(request, CreateAclsResponse)
        for rule, result in zip(rules, answer.results, strict=True):
            what = f"rule for {rule.principal} on {rule.kind.name.lower()} {rule.name!r}"
            check(result.error_code, what, result.error_message)

    await router.retried(once)


async def delete_rules(router: Router, wanted: RuleFilter) -> int:
    """How many rules the filter matched."""
    chosen = DeleteAclsFilter(
        resource_type_filter=wanted.kind,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    request = DeleteAclsRequest(filters=[chosen])

    async def once() -> int:
        answer = (await router.ask_any(request, DeleteAclsResponse)).filter_results[0]
        check(answer.error_code, "access rules", answer.error_message)
        for one in answer.matching_acls:
            check(one.error_code, f"rule for {one.principal}", one.error_message)
        return len(answer.matching_acls)

    return await router.retried(once)


# -- users -----------------------------------------------------------------------------------------

MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES = {number: name for name, number in MECHANISMS.items()}
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT_BYTES = 24


class UserCredential(NamedTuple):
    user: str
    mechanism: str
    iterations: int


async def list_users(router: Router, names: Iterable[str] = ()) -> list[UserCredential]:
    """All credentials, or those of some users; NotFound names the first that has none."""
    asked = [ScramUserName(name=name) for name in names]
    request = DescribeUserScramCredentialsRequest(users=asked or None)

    async def once() -> list[UserCredential]:
        answer = await router.ask_any(request, DescribeUserScramCredentialsResponse)
        check(answer.error_code, "users", answer.error_message)
        for user in answer.results:
            check(user.error_code, f"user {user.user!r}", user.error_message)
        return sorted(
            UserCredential(user.user, _NAMES.get(one.mechanism, "unknown"), one.iterations)
            for user in answer.results
            for one in user.credential_infos
        )

    return await router.retried(once)


async def save_user(
    router: Router, user: str, password: bytes, mechanisms: Iterable[str], iterations: int
) -> None:
    """Add a user or give one a new password. It is salted here and never sent as it is."""
    saved = []
    for name in mechanisms:
        salt = os.urandom(SALT_BYTES)
        saved.append(
            ScramCredentialUpsertion(
                name=user,
                mechanism=MECHANISMS[name],
                iterations=iterations,
                salt=salt,
                salted_password=hashlib.pbkdf2_hmac(_HASHES[name], password, salt, iterations),
            )
        )
    await _alter(router, user, AlterUserScramCredentialsRequest(deletions=[], upsertions=saved))


async def delete_user(router: Router, user: str, mechanisms: Iterable[str]) -> None:
    """NotFound when the user has no credential of one of the mechanisms."""
    gone = [ScramCredentialDeletion(name=user, mechanism=MECHANISMS[name]) for name in mechanisms]
    await _alter(router, user, AlterUserScramCredentialsRequest(deletions=gone, upsertions=[]))


async def _alter(router: Router, user: str, request: AlterUserScramCredentialsRequest) -> None:
    async def once() -> None:
        answer = (await router.ask_any(request, AlterUserScramCredentialsResponse)).results[0]
        check(answer.error_code, f"user {user!r}", answer.error_message)

    await router.retried(once)


# -- quotas ----------------------------------------------------------------------------------------

USER, CLIENT_ID = "user", "client-id"


class QuotaTarget(NamedTuple):
    """Whom a quota is for. Empty text stands for the default of all without one of their own."""

    user: str | None = None
    client_id: str | None = None

    def entities(self) -> list[QuotaEntity]:
        parts = ((USER, self.user), (CLIENT_ID, self.client_id))
        return [
            QuotaEntity(entity_type=kind, entity_name=name or None)
            for kind, name in parts
            if name is not None
        ]


async def list_quotas(router: Router) -> dict[QuotaTarget, dict[str, float]]:
    """All limits, by whom they are for."""
    request = DescribeClientQuotasRequest(components=[], strict=False)

    async def once() -> dict[QuotaTarget, dict[str, float]]:
        answer = await router.ask_any(request, DescribeClientQuotasResponse)
        check(answer.error_code, "quotas", answer.error_message)
        found: dict[QuotaTarget, dict[str, float]] = {}
        for entry in answer.entries or ():
            names = {one.entity_type: one.entity_name or "" for one in entry.entity}
            target = QuotaTarget(names.get(USER), names.get(CLIENT_ID))
            found[target] = {one.key: one.value for one in entry.values}
        return found

    return await router.retried(once)


async def alter_quota(
    router: Router, target: QuotaTarget, put: Mapping[str, float], remove: Iterable[str] = ()
) -> None:
    changes = [
        *(QuotaOperation(key=key, value=value, remove=False) for key, value in put.items()),
        *(QuotaOperation(key=key, value=0.0, remove=True) for key in remove),
    ]
    alteration = QuotaAlteration(entity=target.entities(), ops=changes)
    request = AlterClientQuotasRequest(entries=[alteration], validate_only=False)

    async def once() -> None:
        answer = (await router.ask_any(request, AlterClientQuotasResponse)).entries[0]
        check(answer.error_code, "quota", answer.error_message)

    await router.retried(once)
