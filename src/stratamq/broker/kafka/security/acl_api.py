"""CreateAcls, DescribeAcls and DeleteAcls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from stratamq.broker.kafka.contract import Caller, Family, Handled
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.security.acl_filters import AclFilter, word
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

CREATIONS_AT_ONCE = 64
"""Rules of one request that share a write of metadata."""

CACHE_S = 5.0
"""A change is answered when this node goes by it, or after so long at the latest."""

DISABLED = "no authorizer is configured: set authorizer = acl"


class AclApi(Family):
    """Rules are kept and shown only while they count for something, as in Kafka."""

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
        except _Disabled:
            code = ErrorCode.SECURITY_DISABLED
            return DescribeAclsResponse(error_code=code, error_message=DISABLED, resources=[])
        except InvalidInput as error:
            code = ErrorCode.INVALID_REQUEST
            return DescribeAclsResponse(error_code=code, error_message=str(error), resources=[])
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
            rule = rule_of(creation)
            await self._submit(CreateAcl(rule=rule))
        except StrataError as error:
            code, text = _told(error)
            return AclCreationResult(error_code=code, error_message=text)
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
            code, text = _told(error)
            return DeleteAclsFilterResult(error_code=code, error_message=text, matching_acls=[])
        return DeleteAclsFilterResult(matching_acls=[_deleted(rule) for rule in found])

    async def _submit(self, *commands: CreateAcl | DeleteAcl) -> None:
        if commands:
            revision = await self._meta.submit(*commands)
            await self._cache.wait_for_revision(revision, CACHE_S)

    def _check_enabled(self) -> None:
        if not self._enabled:
            raise _Disabled(DISABLED)


class _Disabled(StrataError):
    pass


def _told(error: StrataError) -> tuple[ErrorCode, str]:
    code = ErrorCode.SECURITY_DISABLED if isinstance(error, _Disabled) else code_of(error)
    return code, str(error)


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        kind=word(ResourceKind, asked.resource_type_filter),
        pattern=word(PatternType, asked.pattern_type_filter),
        name=asked.resource_name_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=word(Operation, asked.operation),
        permission=word(Permission, asked.permission_type),
    )


def rule_of(creation: AclCreation) -> AclRule:
    """Checked here already: whoever sends nonsense is told before anything is kept."""
    rule = AclRule(
        kind=word(ResourceKind, creation.resource_type),
        pattern=word(PatternType, creation.resource_pattern_type),
        name=creation.resource_name,
        principal=creation.principal,
        host=creation.host,
        operation=word(Operation, creation.operation),
        permission=word(Permission, creation.permission_type),
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
