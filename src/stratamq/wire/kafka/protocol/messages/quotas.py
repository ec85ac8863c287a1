"""Client quotas."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    FLOAT64,
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
class QuotaFilterComponent:
    """`match_type`: 0 exactly `match`, 1 the default entity, 2 any that is named."""

    entity_type: str = wire(STRING)
    match_type: int = wire(INT8)
    match: str | None = wire(STRING, nullable=True)


@request(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """A filter over users, client ids and addresses."""

    components: Sequence[QuotaFilterComponent] = wire(array(QuotaFilterComponent))
    strict: bool = wire(BOOL)


@struct
class QuotaEntity:
    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable=True)


@struct
class QuotaValue:
    key: str = wire(STRING)
    value: float = wire(FLOAT64)


@struct
class QuotaEntry:
    entity: Sequence[QuotaEntity] = wire(array(QuotaEntity))
    values: Sequence[QuotaValue] = wire(array(QuotaValue))


@response(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """Quotas by entity."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    entries: Sequence[QuotaEntry] | None = wire(array(QuotaEntry), nullable=True)


@struct
class QuotaOperation:
    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL)


@struct
class QuotaAlteration:
    entity: Sequence[QuotaEntity] = wire(array(QuotaEntity))
    ops: Sequence[QuotaOperation] = wire(array(QuotaOperation))


@request(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Set or remove quotas."""

    entries: Sequence[QuotaAlteration] = wire(array(QuotaAlteration))
    validate_only: bool = wire(BOOL)


@struct
class QuotaAlterationResult:
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    entity: Sequence[QuotaEntity] = wire(array(QuotaEntity))


@response(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """One error code per entity."""

    throttle_time_ms: int = wire(INT32, default=0)
    entries: Sequence[QuotaAlterationResult] = wire(array(QuotaAlterationResult))
