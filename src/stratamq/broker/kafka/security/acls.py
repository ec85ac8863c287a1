"""CreateAcls, DescribeAcls and DeleteAcls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import groupby
from typing import TypeVar

from stratamq.broker.kafka.contract import Caller, Family, Handled
from stratamq.broker.kafka.errors import Refused, code_of
from stratamq.broker.kafka.turns import paced, paced_each
from stratamq.meta.access import AccessCacheManager, CreateAcl, DeleteAcl, check_rule
from stratamq.meta.client import MetaClient
from stratamq.model.access import (
    CLUSTER_NAME,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourceKind,
)
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidInput, StrataError
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

E = TypeVar("E", bound=IntEnum)

_ANY = 1
"""The same number in each of the four enumerations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """None and ANY match everything."""

    kind: ResourceKind = ResourceKind.ANY
    pattern: PatternType = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, rule: AclRule) -> bool:
        return (
            self.kind in (_ANY, rule.kind)
            and self.operation in (_ANY, rule.operation)
            and self.permission in (_ANY, rule.permission)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self._matches_pattern(rule)
        )

    def _matches_pattern(self, rule: AclRule) -> bool:
        if self.pattern is PatternType.MATCH:
            return self.name is None or rule.covers(self.name)
        return self.pattern in (_ANY, rule.pattern) and self.name in (None, rule.name)


def member_of(kind: type[E], number: int) -> E:
    """The member for a number from the wire. UNKNOWN, and numbers that have none, are refused."""
    try:
        found = kind(number)
    except ValueError:
        found = kind(0)
    if not found:
        raise InvalidInput(f"{number} is not a known {kind.__name__}")
    return found


CREATIONS_AT_ONCE = 64
"""Rules of one request that share a write of metadata."""

CACHE_S = 5.0
"""A change is answered when it is in this node's own cache, or after so long at the latest."""

DISABLED = "no authorizer is configured: set authorizer = acl"


class AclApi(Family):
    """Rules are stored and listed only while an authorizer is configured, as in Kafka."""

    def __init__(self, meta: MetaClient, cache: AccessCacheManager, *, enabled: bool) -> None:
        self._meta, self._cache, self._enabled = meta, cache, enabled

    def handlers(self) -> Mapping[type, Handled]:
        return {
            DescribeAclsRequest: Handled(self.describe),
            CreateAclsRequest: Handled(self.create),
            DeleteAclsRequest: Handled(self.delete),
        }

    # -- describe ------------------------------------------------------------------------------

    async def describe(self, request: DescribeAclsRequest, caller: Caller) -> DescribeAclsResponse:
        try:
            self._check_enabled()
            wanted = filter_of(request)
        except StrataError as error:
            return DescribeAclsResponse(
                error_code=code_of(error), error_message=str(error), resources=[]
            )
        state = await self._meta.snapshot()
        found = sorted(rule for rule in state.acls if wanted.matches(rule))
        return DescribeAclsResponse(resources=list(_by_resource(found)))

    # -- create --------------------------------------------------------------------------------

    async def create(self, request: CreateAclsRequest, caller: Caller) -> CreateAclsResponse:
        results = await paced_each(request.creations, self._create, CREATIONS_AT_ONCE)
        return CreateAclsResponse(results=results)

    async def _create(self, creation: AclCreation) -> AclCreationResult:
        try:
            self._check_enabled()
            await self._submit(CreateAcl(rule=rule_of(creation)))
        except StrataError as error:
            return AclCreationResult(error_code=code_of(error), error_message=str(error))
        return AclCreationResult()

    # -- delete --------------------------------------------------------------------------------

    async def delete(self, request: DeleteAclsRequest, caller: Caller) -> DeleteAclsResponse:
        results = [await self._delete(one) async for one in paced(request.filters)]
        return DeleteAclsResponse(filter_results=results)

    async def _delete(self, wanted: DeleteAclsFilter) -> DeleteAclsFilterResult:
        try:
            self._check_enabled()
            asked = filter_of(wanted)
            state = await self._meta.snapshot()
            found = sorted(rule for rule in state.acls if asked.matches(rule))
            await self._submit(*(DeleteAcl(rule=rule) for rule in found))
        except StrataError as error:
            return DeleteAclsFilterResult(
                error_code=code_of(error), error_message=str(error), matching_acls=[]
            )
        return DeleteAclsFilterResult(matching_acls=[_deleted(rule) for rule in found])

    async def _submit(self, *commands: CreateAcl | DeleteAcl) -> None:
        if commands:
            revision = await self._meta.submit(*commands)
            await self._cache.wait_for_revision(revision, CACHE_S)

    def _check_enabled(self) -> None:
        if not self._enabled:
            raise Refused(ErrorCode.SECURITY_DISABLED, DISABLED)


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        kind=member_of(ResourceKind, asked.resource_type_filter),
        pattern=member_of(PatternType, asked.pattern_type_filter),
        name=asked.resource_name_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=member_of(Operation, asked.operation),
        permission=member_of(Permission, asked.permission_type),
    )


def rule_of(creation: AclCreation) -> AclRule:
    """Checked here already: a bad rule is refused before anything is stored."""
    rule = AclRule(
        kind=member_of(ResourceKind, creation.resource_type),
        pattern=member_of(PatternType, creation.resource_pattern_type),
        name=creation.resource_name,
        principal=creation.principal,
        host=creation.host,
        operation=member_of(Operation, creation.operation),
        permission=member_of(Permission, creation.permission_type),
    )
    check_rule(rule)
    if rule.kind is ResourceKind.CLUSTER and rule.name != CLUSTER_NAME:
        raise InvalidInput(f"the only name of a cluster is {CLUSTER_NAME}")
    return rule


def _by_resource(rules: Iterable[AclRule]) -> Iterable[DescribeAclsResource]:
    for (kind, pattern, name), some in groupby(
        rules, key=lambda rule: (rule.kind, rule.pattern, rule.name)
    ):
        yield DescribeAclsResource(
            resource_type=kind,
            resource_name=name,
            pattern_type=pattern,
            acls=[
                AclDescription(
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission,
                )
                for rule in some
            ],
        )


def _deleted(rule: AclRule) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=rule.kind,
        resource_name=rule.name,
        pattern_type=rule.pattern,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )
