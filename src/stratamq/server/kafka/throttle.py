"""Quotas, seen from a connection: an answer may say how long its client has to be quiet.

The answer leaves at once; then nothing is read from the connection for that long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol

from stratamq.broker.kafka.contract import Caller, nothing
from stratamq.broker.kafka.quotas.manager import RequestCost
from stratamq.net.connection import Connection, Hold
from stratamq.wire.kafka.protocol.messages.fetch import FetchResponse


class Quotas(Protocol):
    idle: bool
    """Whether no quota is set, so that nothing need be counted."""

    times: bool
    """Whether a quota limits the time of requests, so that it has to be measured."""

    def charge(self, caller: Caller, cost: RequestCost) -> int:
        """Count a request, and return for how many milliseconds the connection has to be quiet."""


class NoQuotas:
    idle = True
    times = False

    def charge(self, caller: Caller, cost: RequestCost) -> int:
        return 0


class Stopwatch:
    """Awaits something and counts the time that it runs, not the time that it waits: a fetch that
    waits for records uses no processor."""

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


class Mute:
    """Nothing is read from a connection while it is on; `ended` is called when it is off again."""

    def __init__(self, connection: Connection, ended: Callable[[], None]) -> None:
        self._connection, self._ended = connection, ended
        self._until = 0.0
        self.is_on = False

    def start(self, quiet_ms: int) -> None:
        """From now on; one that lasts longer goes on."""
        loop = asyncio.get_running_loop()
        until = loop.time() + quiet_ms / 1000
        if quiet_ms > 0 and until > self._until:
            self._until, self.is_on = until, True
            self._connection.hold(Hold.MUTED)
            loop.call_at(until, self._end, until)

    def close(self) -> None:
        """The connection is gone. Its session, which `ended` belongs to, is to be freed with it."""
        self._until, self._ended = 0.0, nothing

    def _end(self, until: float) -> None:
        if self._until == until:
            self._until, self.is_on = 0.0, False
            self._connection.release(Hold.MUTED)
            self._ended()


def throttle(quotas: Quotas, caller: Caller, cost: RequestCost, response: Any) -> int:
    """For how many milliseconds the connection is to be quiet: the longer of what the handler and
    what the quotas ask for. The response says so too."""
    quiet_ms = quotas.charge(caller, cost)
    asked_ms: int = getattr(response, "throttle_time_ms", 0)
    if quiet_ms > asked_ms and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = quiet_ms
    return max(quiet_ms, asked_ms)


def record_bytes(response: object) -> int:
    if not isinstance(response, FetchResponse):
        return 0
    return sum(
        len(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    )
