"""CheckNode, which Kafka does not have: what only the node's own machine shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from stratamq.broker.kafka.contract import Caller, Family, Handled
from stratamq.broker.kafka.errors import api_error
from stratamq.model.errors import StrataError
from stratamq.model.findings import Finding
from stratamq.wire.kafka.protocol.messages.node_check import CheckNodeRequest, CheckNodeResponse

TEXT_CHARS_MAX = 10_000
"""A node with much damage has more to say; its own doctor says all of it."""


class NodeCheckApi(Family):
    def __init__(self, check: Callable[[str], Finding]) -> None:
        """`check` makes a check by its name, on a thread; NotFound when there is none."""
        self._check = check
        self._turn = asyncio.Lock()  # some read many files: one after the other

    def handlers(self) -> Mapping[type, Handled]:
        return {CheckNodeRequest: Handled(self.check)}

    async def check(self, request: CheckNodeRequest, caller: Caller) -> CheckNodeResponse:
        try:
            async with self._turn:
                found = await asyncio.to_thread(self._check, request.name)
        except StrataError as error:
            code, message = api_error(error)
            return CheckNodeResponse(error_code=code, error_message=message)
        return CheckNodeResponse(result=found.result, text=found.text[:TEXT_CHARS_MAX])
