"""ApiVersions: what the peer can be asked, and in which versions."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    array,
    request,
    response,
    struct,
    wire,
)


@request(key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """The first thing a client asks, perhaps in a version newer than ours."""

    client_software_name: str = wire(STRING, versions="3+", default="", ignorable=True)
    client_software_version: str = wire(STRING, versions="3+", default="", ignorable=True)


@struct
class ApiVersion:
    api_key: int = wire(INT16)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


@struct
class SupportedFeatureKey:
    name: str = wire(STRING)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


@struct
class FinalizedFeatureKey:
    name: str = wire(STRING)
    max_version_level: int = wire(INT16)
    min_version_level: int = wire(INT16)


@response(key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    """Its header has no tagged fields in any version: the client cannot know ours yet."""

    error_code: int = wire(INT16, default=0)
    api_keys: Sequence[ApiVersion] = wire(array(ApiVersion))
    throttle_time_ms: int = wire(INT32, versions="1+", default=0, ignorable=True)
    supported_features: Sequence[SupportedFeatureKey] = wire(
        array(SupportedFeatureKey), tag=0, versions="3+", default=(), ignorable=True
    )
    finalized_features_epoch: int = wire(INT64, tag=1, versions="3+", default=-1, ignorable=True)
    finalized_features: Sequence[FinalizedFeatureKey] = wire(
        array(FinalizedFeatureKey), tag=2, versions="3+", default=(), ignorable=True
    )
    zk_migration_ready: bool = wire(BOOL, tag=3, versions="3+", default=False, ignorable=True)
