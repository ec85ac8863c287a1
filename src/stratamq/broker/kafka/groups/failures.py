"""What a group's members are told when we, not they, have failed."""

from __future__ import annotations

from stratamq.broker.kafka.errors import code_of
from stratamq.model.errors import CapacityExceeded, Closed, InvalidName, StorageError
from stratamq.wire.kafka.protocol import ErrorCode


def group_code(error: Exception) -> ErrorCode:
    """Clients look for another coordinator or try again; they do not give up."""
    if isinstance(error, InvalidName):
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(error, StorageError | CapacityExceeded | Closed):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code_of(error)
