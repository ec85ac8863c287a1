"""What everybody used, told to whoever is over their limit. The server's `Quotas`."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.quotas.lookup import Limit, limit_of
from stratamq.broker.kafka.quotas.windows import Rate, Windows
from stratamq.meta.access import Quota, QuotaScope

PRODUCE_KEY, FETCH_KEY = 0, 1
PRODUCED, CONSUMED, BUSY = "producer_byte_rate", "consumer_byte_rate", "request_percentage"

RATES_MAX = 20_000
"""Of users and client ids. Met: those that are idle go, else the one unused longest."""

CLIENTS_MAX = 20_000
"""Remembered look-ups. Met: all are forgotten and made again."""

PERCENT_PER_MS = 100 / 1000


class Used(Protocol):
    """What one request cost."""

    @property
    def api_key(self) -> int: ...

    @property
    def request_bytes(self) -> int: ...

    @property
    def response_bytes(self) -> int: ...

    @property
    def busy_ms(self) -> float: ...


class Source(Protocol):
    @property
    def quotas_version(self) -> int: ...

    def quotas(self) -> Mapping[QuotaScope, Quota]: ...


class _Limits(NamedTuple):
    produced: Limit | None
    consumed: Limit | None
    busy: Limit | None


class QuotaKeeper:
    """While nobody has a quota, a request costs one comparison here."""

    def __init__(
        self,
        source: Source,
        windows: Windows,
        now_ms: Callable[[], float] = lambda: time.monotonic() * 1000,
    ) -> None:
        self._source, self._windows, self._now_ms = source, windows, now_ms
        self._version = -1
        self._clients: dict[tuple[str, str], _Limits] = {}
        self._rates: OrderedDict[tuple[str, QuotaScope], Rate] = OrderedDict()

    @property
    def idle(self) -> bool:
        return not self._source.quotas()

    @property
    def times(self) -> bool:
        """Whether anybody's time is limited, so that it has to be measured."""
        quotas = self._source.quotas()
        return bool(quotas) and any(BUSY in quota.limits for quota in quotas.values())

    def charge(self, caller: Caller, usage: Used) -> int:
        """Count it; for how many milliseconds the connection is to be quiet."""
        if not self._source.quotas():
            return 0
        limits = self._limits(caller.principal.removeprefix("User:"), caller.client_id)
        bytes_ms = busy_ms = 0
        if usage.api_key == PRODUCE_KEY and limits.produced is not None:
            bytes_ms = self._count(PRODUCED, limits.produced, usage.request_bytes)
        elif usage.api_key == FETCH_KEY and limits.consumed is not None:
            bytes_ms = self._count(CONSUMED, limits.consumed, usage.response_bytes)
        if limits.busy is not None:
            busy_ms = self._count(BUSY, limits.busy, usage.busy_ms * PERCENT_PER_MS)
        return max(bytes_ms, min(busy_ms, self._windows.length_ms))

    def _count(self, kind: str, limit: Limit, amount: float) -> int:
        now_ms = self._now_ms()
        rate = self._rate((kind, limit.shared_by), now_ms)
        rate.add(amount, now_ms)
        return rate.quiet_ms(limit.per_second_max, now_ms)

    def _rate(self, key: tuple[str, QuotaScope], now_ms: float) -> Rate:
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= RATES_MAX:
                self._forget(now_ms)
            rate = self._rates[key] = Rate(self._windows)
        self._rates.move_to_end(key)
        return rate

    def _forget(self, now_ms: float) -> None:
        for key in [key for key, rate in self._rates.items() if rate.is_idle(now_ms)]:
            del self._rates[key]
        while len(self._rates) >= RATES_MAX:
            self._rates.popitem(last=False)

    def _limits(self, user: str, client_id: str) -> _Limits:
        if self._version != self._source.quotas_version or len(self._clients) >= CLIENTS_MAX:
            self._version = self._source.quotas_version
            self._clients.clear()
        found = self._clients.get((user, client_id))
        if found is None:
            quotas = self._source.quotas()
            found = self._clients[user, client_id] = _Limits(
                *(limit_of(quotas, kind, user, client_id) for kind in (PRODUCED, CONSUMED, BUSY))
            )
        return found
