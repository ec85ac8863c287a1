"""All APIs of which we have the messages, by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stratamq.model.dataclass import dataclass
from stratamq.wire.kafka.protocol.errors import ErrorCode
from stratamq.wire.kafka.protocol.messages import (
    acls,
    api_versions,
    backup,
    cluster_admin,
    configs,
    consumer_groups,
    fetch,
    group_offsets,
    groups,
    groups_admin,
    lake,
    log_offsets,
    metadata,
    node_check,
    produce,
    quorum,
    quotas,
    sasl,
    topics,
    transactions,
    transactions_admin,
)
from stratamq.wire.kafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from stratamq.wire.kafka.protocol.schema import MessageSpec, Role, Versions, declared_in

_FAMILIES = (
    acls,
    api_versions,
    backup,
    cluster_admin,
    configs,
    consumer_groups,
    fetch,
    group_offsets,
    groups,
    groups_admin,
    lake,
    log_offsets,
    metadata,
    node_check,
    produce,
    quorum,
    quotas,
    cluster_admin,
    sasl,
    topics,
    transactions,
    transactions_admin,
)

ADVERTISED_FROM = {0: 0, 17: 0}
"""Produce is advertised from version 0, although served from 3: librdkafka before 2.11.1 looks at
the lowest version to learn which compressions it may use, and silently uses none (KAFKA-18659).
SaslHandshake likewise: older librdkafka does not log in at all where version 0 is not there."""


@dataclass(frozen=True, slots=True)
class Api:
    """One row of the table. `versions` are those whose messages we can read and write."""

    key: int
    name: str
    versions: Versions
    flexible: Versions
    request: type
    response: type

    def is_flexible(self, version: int) -> bool:
        return self.flexible.first <= version <= self.flexible.last


def _table() -> dict[int, Api]:
    by_role: dict[tuple[int, Role], MessageSpec] = {}
    for family in _FAMILIES:
        for message in declared_in(family.__name__):
            by_role[message.key, message.role] = message
    table = {}
    for (key, role), request in sorted(by_role.items()):
        if role is not Role.REQUEST:
            continue
        response = by_role[key, Role.RESPONSE]
        assert request.versions == response.versions, f"{request.name}: its response differs"
        assert request.flexible == response.flexible, f"{request.name}: its response differs"
        table[key] = Api(
            key=key,
            name=request.name.removesuffix("Request"),
            versions=request.versions,
            flexible=request.flexible,
            request=request.type,
            response=response.type,
        )
    return table


APIS: Mapping[int, Api] = _table()
ALL_VERSIONS: Mapping[int, Versions] = {key: api.versions for key, api in APIS.items()}

Served = Mapping[int, Versions]
"""What a server really serves: API keys with the versions of each."""


def api_versions_response(
    served: Served,
    *,
    error_code: int = ErrorCode.NONE,
    throttle_time_ms: int = 0,
    supported_features: Sequence[SupportedFeatureKey] = (),
    finalized_features: Sequence[FinalizedFeatureKey] = (),
    finalized_features_epoch: int = -1,
) -> ApiVersionsResponse:
    """Advertise what is served, and nothing else."""
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=[_advertised(key, served[key]) for key in sorted(served)],
        throttle_time_ms=throttle_time_ms,
        supported_features=list(supported_features),
        finalized_features=list(finalized_features),
        finalized_features_epoch=finalized_features_epoch,
    )


def _advertised(key: int, versions: Versions) -> ApiVersion:
    if not APIS[key].versions.covers(versions):
        raise ValueError(f"{APIS[key].name} is known in {APIS[key].versions}, not in {versions}")
    first = ADVERTISED_FROM.get(key, versions.first)
    return ApiVersion(api_key=key, min_version=first, max_version=versions.last)
