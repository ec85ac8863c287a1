"""What producers are told when we, not they, have failed."""

from __future__ import annotations

from stratamq.broker.kafka.errors import code_of
from stratamq.model.errors import CapacityExceeded, Closed, StorageError, StrataError
from stratamq.wire.kafka.protocol import ErrorCode


def transaction_code(error: StrataError) -> ErrorCode:
    """Clients look for the coordinator again and retry; they do not give up."""
    if isinstance(error, StorageError | CapacityExceeded | Closed):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code_of(error)


def before(fenced_since: int, version: int, code: ErrorCode) -> ErrorCode:
    """Versions that do not know PRODUCER_FENCED say it with the older code."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
