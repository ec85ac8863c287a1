"""What clients used of the node, and how long a client over its quota has to be quiet. This is the
server's `Quotas`.

A rate is taken over a few windows of time, as Kafka does it: what the windows hold, over the time
since the oldest of them began, but at least over all windows but one. So a single burst after a
silence does not count as if it went on for ever.

Of the limits of one kind, the first that is set counts: for the user and the client id, for the
user, for the client id; and in each step the limit by name before the default. A limit for a user
is shared by all their clients; a default is each one's own.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from stratamq.broker.kafka.contract import Caller
from stratamq.meta.access import DEFAULT, Quota, QuotaScope
from stratamq.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class QuotaWindows:
    count: int = 11
    length_ms: int = 1000


class QuotaRate:
    """What was used over the windows. Times must not go back."""

    __slots__ = ("_used", "_windows")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._used: deque[list[float]] = deque(maxlen=windows.count)

    def add(self, amount: float, now_ms: float) -> None:
        used = self._used
        if not used or now_ms - used[-1][0] >= self._windows.length_ms:
            used.append([now_ms, 0.0])
        used[-1][1] += amount

    def quiet_ms(self, per_second_max: float, now_ms: float) -> int:
        """How long to be quiet until the rate is down to the limit; 0 within it."""
        total = self._total(now_ms)
        span_ms = self._span_ms(now_ms)
        over = total / (span_ms / 1000) - per_second_max
        return round(over / per_second_max * span_ms) if over > 0 else 0

    def is_idle(self, now_ms: float) -> bool:
        return self._total(now_ms) == 0.0

    def _total(self, now_ms: float) -> float:
        used = self._used
        all_ms = self._windows.count * self._windows.length_ms
        while used and now_ms - used[0][0] >= all_ms:
            used.popleft()
        return sum(amount for _, amount in used)

    def _span_ms(self, now_ms: float) -> float:
        length_ms = self._windows.length_ms
        span_ms = now_ms - self._used[0][0] if self._used else 0.0
        missing = self._windows.count - 1 - int(span_ms // length_ms)
        return span_ms + max(missing, 0) * length_ms


class QuotaLimit(NamedTuple):
    """`shared_by` names the user or client id whose connections use up the limit together."""

    per_second_max: float
    shared_by: QuotaScope


def limit_of(
    quotas: Mapping[QuotaScope, Quota], kind: str, user: str, client_id: str
) -> QuotaLimit | None:
    for scope in scopes(user, client_id):
        found = quotas.get(scope)
        if found is not None and kind in found.limits:
            shared_by = QuotaScope(
                None if scope.user is None else user,
                None if scope.client_id is None else client_id,
            )
            return QuotaLimit(found.limits[kind], shared_by)
    return None


def scopes(user: str, client_id: str) -> Iterator[QuotaScope]:
    """In Kafka's order."""
    for one in (user, DEFAULT):
        yield QuotaScope(one, client_id)
        yield QuotaScope(one, DEFAULT)
        yield QuotaScope(one, None)
    yield QuotaScope(None, client_id)
    yield QuotaScope(None, DEFAULT)


PRODUCE_KEY, FETCH_KEY = 0, 1
PRODUCED, CONSUMED, BUSY = "producer_byte_rate", "consumer_byte_rate", "request_percentage"

RATES_MAX = 20_000
"""Of users and client ids. When the limit is reached, those that are idle are dropped, else the one
unused longest."""

CLIENTS_MAX = 20_000
"""Remembered look-ups. When the limit is reached, all are forgotten and looked up again."""

PERCENT_PER_MS = 100 / 1000


class RequestCost(NamedTuple):
    """What one request cost."""

    api_key: int
    request_bytes: int
    response_bytes: int
    """Of records, in a Fetch; 0 otherwise."""

    busy_ms: float
    """Of the event loop's time; 0 while no quota limits it."""


class QuotaSource(Protocol):
    """The quotas that are set."""

    @property
    def quotas_version(self) -> int: ...

    def quotas(self) -> Mapping[QuotaScope, Quota]: ...


class _ClientLimits(NamedTuple):
    produced: QuotaLimit | None
    consumed: QuotaLimit | None
    busy: QuotaLimit | None


class ClientQuotaManager:
    """`idle`: no quota is set, and requests need not be counted. `times`: time is limited for some
    client, and has to be measured. Both are as of the last `look`."""

    def __init__(
        self,
        source: QuotaSource,
        windows: QuotaWindows,
        now_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
    ) -> None:
        self._source, self._windows, self._now_ms = source, windows, now_ms
        self._version = -1
        self._clients: dict[tuple[str, str], _ClientLimits] = {}
        self._rates: OrderedDict[tuple[str, QuotaScope], QuotaRate] = OrderedDict()
        self.look()

    def look(self) -> None:
        """Quotas were set or removed."""
        quotas = self._source.quotas()
        self.idle = not quotas
        self.times = any(BUSY in quota.limits for quota in quotas.values())

    def charge(self, caller: Caller, cost: RequestCost) -> int:
        """Count a request, and return for how many milliseconds the connection has to be quiet."""
        if not self._source.quotas():
            return 0
        limits = self._limits(caller.principal.removeprefix("User:"), caller.client_id)
        bytes_ms = busy_ms = 0
        if cost.api_key == PRODUCE_KEY and limits.produced is not None:
            bytes_ms = self._count(PRODUCED, limits.produced, cost.request_bytes)
        elif cost.api_key == FETCH_KEY and limits.consumed is not None:
            bytes_ms = self._count(CONSUMED, limits.consumed, cost.response_bytes)
        if limits.busy is not None:
            busy_ms = self._count(BUSY, limits.busy, cost.busy_ms * PERCENT_PER_MS)
        return max(bytes_ms, min(busy_ms, self._windows.length_ms))

    def _count(self, kind: str, limit: QuotaLimit, amount: float) -> int:
        now_ms = self._now_ms()
        rate = self._rate((kind, limit.shared_by), now_ms)
        rate.add(amount, now_ms)
        return rate.quiet_ms(limit.per_second_max, now_ms)

    def _rate(self, key: tuple[str, QuotaScope], now_ms: float) -> QuotaRate:
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= RATES_MAX:
                self._forget(now_ms)
            rate = self._rates[key] = QuotaRate(self._windows)
        self._rates.move_to_end(key)
        return rate

    def _forget(self, now_ms: float) -> None:
        for key in [key for key, rate in self._rates.items() if rate.is_idle(now_ms)]:
            del self._rates[key]
        while len(self._rates) >= RATES_MAX:
            self._rates.popitem(last=False)

    def _limits(self, user: str, client_id: str) -> _ClientLimits:
        if self._version != self._source.quotas_version or len(self._clients) >= CLIENTS_MAX:
            self._version = self._source.quotas_version
            self._clients.clear()
        found = self._clients.get((user, client_id))
        if found is None:
            quotas = self._source.quotas()
            found = self._clients[user, client_id] = _ClientLimits(
                *(limit_of(quotas, kind, user, client_id) for kind in (PRODUCED, CONSUMED, BUSY))
            )
        return found
