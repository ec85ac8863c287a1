"""FindCoordinator: which node to talk to about a group or a transactional id."""

from __future__ import annotations

from collections.abc import Callable

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.turns import paced
from stratamq.model.types import NodeId
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP, TRANSACTION = 0, 1
BATCHED_FROM = 4

Address = Callable[[], tuple[str, int] | None]
"""Where clients reach this node; None: nowhere at the moment."""


class Finder:
    """This node coordinates everything as long as it is the only one."""

    def __init__(self, node_id: NodeId, address: Address) -> None:
        self._node_id = node_id
        self._address = address

    async def find(
        self, request: FindCoordinatorRequest, caller: Caller
    ) -> FindCoordinatorResponse:
        address = self._address()
        if caller.version >= BATCHED_FROM:
            found = [
                self._coordinator(key, request.key_type, address)
                async for key in paced(request.coordinator_keys)
            ]
            return FindCoordinatorResponse(coordinators=found)
        one = self._coordinator(request.key, request.key_type, address)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    def _coordinator(self, key: str, key_type: int, address: tuple[str, int] | None) -> Coordinator:
        if key_type not in (GROUP, TRANSACTION):
            text = f"key type {key_type} is not known here"
            return _nobody(key, ErrorCode.INVALID_REQUEST, text)
        if address is None:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return _nobody(key, error, error.text)
        host, port = address
        return Coordinator(key=key, node_id=self._node_id, host=host, port=port, error_message="")


def _nobody(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text)
