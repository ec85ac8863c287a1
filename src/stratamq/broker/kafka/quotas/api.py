"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stratamq.broker.kafka.contract import Caller, Family, Handled
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.turns import paced
from stratamq.meta.access import (
    DEFAULT,
    AccessCacheManager,
    AlterQuota,
    Quota,
    QuotaScope,
    check_quota,
)
from stratamq.meta.client import MetaClient
from stratamq.model.errors import InvalidInput, StrataError
from stratamq.wire.kafka.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaAlteration,
    QuotaAlterationResult,
    QuotaEntity,
    QuotaEntry,
    QuotaFilterComponent,
    QuotaValue,
)

USER, CLIENT_ID = "user", "client-id"
EXACTLY, THE_DEFAULT, ANY_NAMED = 0, 1, 2
CACHE_S = 5.0


class ClientQuotas(Family):
    def __init__(self, meta: MetaClient, cache: AccessCacheManager) -> None:
        self._meta, self._cache = meta, cache

    def handlers(self) -> Mapping[type, Handled]:
        return {
            DescribeClientQuotasRequest: Handled(self.describe),
            AlterClientQuotasRequest: Handled(self.alter),
        }

    async def describe(
        self, request: DescribeClientQuotasRequest, caller: Caller
    ) -> DescribeClientQuotasResponse:
        try:
            wanted = filter_of(request.components, strict=request.strict)
        except InvalidInput as error:
            return DescribeClientQuotasResponse(
                error_code=code_of(error), error_message=str(error), entries=None
            )
        quotas = (await self._meta.snapshot()).quotas.values()
        found = sorted(
            (one for one in quotas if wanted.matches(one.scope)),
            key=lambda one: (one.scope.user or "", one.scope.client_id or ""),
        )
        return DescribeClientQuotasResponse(entries=[_entry(one) async for one in paced(found)])

    async def alter(
        self, request: AlterClientQuotasRequest, caller: Caller
    ) -> AlterClientQuotasResponse:
        entries = [
            await self._alter(one, request.validate_only) async for one in paced(request.entries)
        ]
        return AlterClientQuotasResponse(entries=entries)

    async def _alter(self, wanted: QuotaAlteration, validate_only: bool) -> QuotaAlterationResult:
        try:
            command = command_of(wanted)
            if not validate_only:
                revision = await self._meta.submit(command)
                await self._cache.wait_for_revision(revision, CACHE_S)
        except StrataError as error:
            return QuotaAlterationResult(
                error_code=code_of(error), error_message=str(error), entity=wanted.entity
            )
        return QuotaAlterationResult(entity=wanted.entity)


# -- filters ---------------------------------------------------------------------------------------


class QuotaFilter(NamedTuple):
    """For each part of a scope how it is to match; None: it need not be there."""

    user: QuotaFilterComponent | None
    client_id: QuotaFilterComponent | None
    strict: bool

    def matches(self, scope: QuotaScope) -> bool:
        return self._part(self.user, scope.user) and self._part(self.client_id, scope.client_id)

    def _part(self, wanted: QuotaFilterComponent | None, name: str | None) -> bool:
        if wanted is None:
            return name is None or not self.strict
        if wanted.match_type == EXACTLY:
            return name == wanted.match
        if wanted.match_type == THE_DEFAULT:
            return name == DEFAULT
        return name is not None


def filter_of(components: Sequence[QuotaFilterComponent], *, strict: bool) -> QuotaFilter:
    parts: dict[str, QuotaFilterComponent] = {}
    for one in components:
        _check_type(one.entity_type, parts)
        if one.match_type not in (EXACTLY, THE_DEFAULT, ANY_NAMED):
            raise InvalidInput(f"{one.match_type} is no way to match")
        if one.match_type == EXACTLY and not one.match:
            raise InvalidInput(f"which {one.entity_type}?")
        parts[one.entity_type] = one
    return QuotaFilter(parts.get(USER), parts.get(CLIENT_ID), strict)


# -- changes ---------------------------------------------------------------------------------------


def command_of(wanted: QuotaAlteration) -> AlterQuota:
    names: dict[str, str] = {}
    for one in wanted.entity:
        _check_type(one.entity_type, names)
        if one.entity_name == "":
            raise InvalidInput(f"an empty {one.entity_type} names no client")
        names[one.entity_type] = DEFAULT if one.entity_name is None else one.entity_name
    keys = [one.key for one in wanted.ops]
    if len(set(keys)) < len(keys):
        raise InvalidInput("a quota is changed twice")
    command = AlterQuota(
        scope=QuotaScope(names.get(USER), names.get(CLIENT_ID)),
        put={one.key: one.value for one in wanted.ops if not one.remove},
        remove=frozenset(one.key for one in wanted.ops if one.remove),
    )
    check_quota(command)
    return command


def _check_type(name: str, seen: Mapping[str, Any]) -> None:
    if name not in (USER, CLIENT_ID):
        raise InvalidInput(f"quotas are for {USER} and {CLIENT_ID}, not for {name!r}")
    if name in seen:
        raise InvalidInput(f"{name} is named twice")


def _entry(quota: Quota) -> QuotaEntry:
    parts = ((USER, quota.scope.user), (CLIENT_ID, quota.scope.client_id))
    return QuotaEntry(
        entity=[
            QuotaEntity(entity_type=kind, entity_name=name or None)
            for kind, name in parts
            if name is not None
        ],
        values=[QuotaValue(key=key, value=value) for key, value in sorted(quota.limits.items())],
    )
