"""Quotas, seen from a connection: an answer may say how long its client has to be quiet.

The answer leaves at once; then nothing is read from the connection for that long.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Generator
from typing import Any, NamedTuple, Protocol

from stratamq.broker.kafka.contract import Caller
from stratamq.wire.kafka.protocol.messages.fetch import FetchResponse


class Usage(NamedTuple):
    """What one request cost."""

    api_key: int
    request_bytes: int
    response_bytes: int
    """Of records, in a Fetch; 0 otherwise."""

    busy_ms: float
    """Of the event loop's time; 0 while nobody's is limited."""


class Quotas(Protocol):
    @property
    def idle(self) -> bool:
        """Whether nobody has a quota, so that nothing need be counted."""

    @property
    def times(self) -> bool:
        """Whether anybody needs to know how busy a request kept us."""

    def charge(self, caller: Caller, usage: Usage) -> int:
        """Count it; for how many milliseconds the connection is to be quiet."""


class NoQuotas:
    idle = True
    times = False

    def charge(self, caller: Caller, usage: Usage) -> int:
        return 0


class Stopwatch:
    """Awaits something and counts the time that it runs, not the time that it waits: a fetch that
    waits for records keeps nobody busy."""

    __slots__ = ("_work", "busy_s")

    def __init__(self, work: Awaitable[Any]) -> None:
        self._work = work
        self.busy_s = 0.0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        advance, given = steps.send, None
        while True:
            began = time.perf_counter()
            try:
                waits_for = advance(given)
            except StopIteration as end:
                return end.value
            finally:
                self.busy_s += time.perf_counter() - began
            try:
                given = yield waits_for
                advance = steps.send
            except BaseException as error:
                given, advance = error, steps.throw


def record_bytes(response: object) -> int:
    if not isinstance(response, FetchResponse):
        return 0
    return sum(
        len(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    )
