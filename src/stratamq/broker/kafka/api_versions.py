"""ApiVersions: what is served, and nothing else; the cluster's features, and UpdateFeatures."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stratamq.broker.kafka.contract import Caller
from stratamq.wire.kafka.protocol import ErrorCode, Served, api_versions_response
from stratamq.wire.kafka.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from stratamq.wire.kafka.protocol.messages.quorum import (
    FeatureUpdateResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

NAMES_SINCE = 3
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

FEATURES: Mapping[str, int] = {"group.version": 1, "transaction.version": 2}
"""group.version 1: consumer groups of the new protocol (KIP-848).

transaction.version 2: Produce and TxnOffsetCommit add to the transaction what they touch, and each
end gives the producer a new epoch (KIP-890). Producers that add partitions themselves are served as
before."""

FEATURES_EPOCH = 2
"""Clients keep the features of the highest epoch they have seen: raise it with every change."""

SUPPORTED = [
    SupportedFeatureKey(name=name, min_version=level, max_version=level)
    for name, level in FEATURES.items()
]
FINALIZED = [
    FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
    for name, level in FEATURES.items()
]
NOT_SERVED: Mapping[str, str] = {
    "share groups": "ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge "
    "InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState "
    "ReadShareGroupStateSummary DescribeShareGroupOffsets AlterShareGroupOffsets "
    "DeleteShareGroupOffsets",
    "Kafka Streams' own group protocol; Streams uses consumer groups": "StreamsGroupHeartbeat "
    "StreamsGroupDescribe",
    "delegation tokens": "CreateDelegationToken RenewDelegationToken ExpireDelegationToken "
    "DescribeDelegationToken",
    "clients would send their own metrics, which nothing collects": "GetTelemetrySubscriptions "
    "PushTelemetry",
    "between Kafka's own brokers and controllers": "Vote BeginQuorumEpoch EndQuorumEpoch "
    "AlterPartition Envelope FetchSnapshot BrokerRegistration BrokerHeartbeat AllocateProducerIds "
    "ControllerRegistration AssignReplicasToDirs AddRaftVoter RemoveRaftVoter UpdateRaftVoter",
}
"""APIs of Apache Kafka 4.1 that are not served, by what they are for."""

UPDATES_MAX = 100
"""Of one request. Above: INVALID_REQUEST."""


def answer(request: ApiVersionsRequest, caller: Caller, served: Served) -> ApiVersionsResponse:
    """From version 3 on clients say what they are, and one that cannot say it is refused."""
    named = _NAME.fullmatch(request.client_software_name) and _NAME.fullmatch(
        request.client_software_version
    )
    if caller.version >= NAMES_SINCE and not named:
        return api_versions_response({}, error_code=ErrorCode.INVALID_REQUEST)
    return api_versions_response(
        served,
        supported_features=SUPPORTED,
        finalized_features=FINALIZED,
        finalized_features_epoch=FEATURES_EPOCH,
    )


async def update_features(request: UpdateFeaturesRequest, caller: Caller) -> UpdateFeaturesResponse:
    """A feature is at the one version that this program has. Asking for that is no failure; asking
    for another fails the whole request, as in Kafka."""
    if len(request.feature_updates) > UPDATES_MAX:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=f"over {UPDATES_MAX} updates"
        )
    for one in request.feature_updates:
        level = FEATURES.get(one.feature)
        if level != one.max_version_level:
            here = "there is no such feature" if level is None else f"it is fixed at {level}"
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message=f"{one.feature} cannot have version {one.max_version_level}: {here}",
            )
    return UpdateFeaturesResponse(
        results=[FeatureUpdateResult(feature=one.feature) for one in request.feature_updates]
    )
