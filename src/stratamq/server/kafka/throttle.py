"""Quotas, seen from a connection: an answer may say how long its client has to be quiet.

The answer leaves at once; then nothing is read from the connection for that long.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stratamq.broker.kafka.contract import Caller
from stratamq.wire.kafka.protocol.messages.fetch import FetchResponse


class Usage(NamedTuple):
    """What one request cost."""

    api_key: int
    request_bytes: int
    response_bytes: int
    """Of records, in a Fetch; 0 otherwise."""

    busy_ms: float


class Quotas(Protocol):
    def charge(self, caller: Caller, usage: Usage) -> int:
        """Count it; for how many milliseconds the connection is to be quiet."""


class NoQuotas:
    def charge(self, caller: Caller, usage: Usage) -> int:
        return 0


def record_bytes(response: object) -> int:
    if not isinstance(response, FetchResponse):
        return 0
    return sum(
        len(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    )
