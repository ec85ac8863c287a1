"""Configs of topics and brokers."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    STRING,
    array,
    request,
    response,
    struct,
    wire,
)


@struct
class DescribeConfigsResource:
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configuration_keys: Sequence[str] | None = wire(array(STRING), nullable=True)


@request(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    """Null keys mean all configs of a resource."""

    resources: Sequence[DescribeConfigsResource] = wire(array(DescribeConfigsResource))
    include_synonyms: bool = wire(BOOL, default=False)
    include_documentation: bool = wire(BOOL, versions="3+", default=False)


@struct
class DescribeConfigsSynonym:
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=True)
    source: int = wire(INT8)


@struct
class DescribeConfigsResourceResult:
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=True)
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, default=-1)
    is_sensitive: bool = wire(BOOL)
    synonyms: Sequence[DescribeConfigsSynonym] = wire(array(DescribeConfigsSynonym))
    config_type: int = wire(INT8, versions="3+", default=0, ignorable=True)
    documentation: str | None = wire(
        STRING, versions="3+", nullable=True, default=None, ignorable=True
    )


@struct
class DescribeConfigsResult:
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: Sequence[DescribeConfigsResourceResult] = wire(array(DescribeConfigsResourceResult))


@response(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    """Configs with their origin."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: Sequence[DescribeConfigsResult] = wire(array(DescribeConfigsResult))


@struct
class AlterableConfig:
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=True)


@struct
class AlterConfigsResource:
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: Sequence[AlterableConfig] = wire(array(AlterableConfig))


@request(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Replace all configs of a resource; what is not named goes back to its default."""

    resources: Sequence[AlterConfigsResource] = wire(array(AlterConfigsResource))
    validate_only: bool = wire(BOOL)


@struct
class AlterConfigsResourceResponse:
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)


@response(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """One error code per resource."""

    throttle_time_ms: int = wire(INT32, default=0)
    responses: Sequence[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse))


@struct
class IncrementalAlterableConfig:
    """`config_operation`: 0 set, 1 delete, 2 append to a list, 3 take from a list."""

    name: str = wire(STRING)
    config_operation: int = wire(INT8)
    value: str | None = wire(STRING, nullable=True)


@struct
class IncrementalAlterConfigsResource:
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: Sequence[IncrementalAlterableConfig] = wire(array(IncrementalAlterableConfig))


@request(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Change some configs of a resource."""

    resources: Sequence[IncrementalAlterConfigsResource] = wire(
        array(IncrementalAlterConfigsResource)
    )
    validate_only: bool = wire(BOOL)


@response(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """One error code per resource."""

    throttle_time_ms: int = wire(INT32, default=0)
    responses: Sequence[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse))


@request(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """What has configs? Before Kafka 4.1 this was ListClientMetricsResources, version 0."""

    resource_types: Sequence[int] = wire(array(INT8), versions="1+", default=())


@struct
class ConfigResource:
    resource_name: str = wire(STRING)
    resource_type: int = wire(INT8, versions="1+", default=16, ignorable=True)


@response(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """Resources that have configs."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    config_resources: Sequence[ConfigResource] = wire(array(ConfigResource))
