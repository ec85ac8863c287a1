"""Counting: what counts against which limit, who shares, and that it is bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.quotas import manager as keeping
from stratamq.broker.kafka.quotas.manager import ClientQuotaManager, QuotaWindows, RequestCost
from stratamq.meta.access import DEFAULT, Quota, QuotaScope
from stratamq.server.kafka.throttle import NoQuotas, Stopwatch
from tests.waiting import let_run

PRODUCE, FETCH, HEARTBEAT = 0, 1, 12


class Quotas(NamedTuple):
    """A source that does not change."""

    given: Mapping[QuotaScope, Mapping[str, float]]
    quotas_version: int = 1

    def quotas(self) -> Mapping[QuotaScope, Quota]:
        return {scope: Quota(scope=scope, limits=one) for scope, one in self.given.items()}


def keeper(given: Mapping[QuotaScope, Mapping[str, float]]) -> ClientQuotaManager:
    return ClientQuotaManager(Quotas(given), QuotaWindows(11, 1000), lambda: 0.0)


def usage(api_key: int, sent: int = 0, got: int = 0, busy_ms: float = 0) -> RequestCost:
    return RequestCost(api_key, sent, got, busy_ms)


ALICE = Caller(version=9, principal="User:alice", client_id="app")
OTHER = Caller(version=9, principal="User:alice", client_id="other")


def test_without_quotas_nobody_is_held_up_and_nothing_is_kept() -> None:
    counts = keeper({})
    assert counts.charge(ALICE, usage(PRODUCE, 1 << 40)) == 0
    assert not counts.times
    assert not counts._rates
    assert not NoQuotas.times


def test_each_kind_counts_its_own() -> None:
    limits = {"producer_byte_rate": 100.0, "consumer_byte_rate": 10.0}
    counts = keeper({QuotaScope("alice", None): limits})
    assert counts.charge(ALICE, usage(HEARTBEAT, 1 << 20, 1 << 20)) == 0
    assert counts.charge(ALICE, usage(PRODUCE, 2000, 0)) == 10_000
    assert counts.charge(ALICE, usage(FETCH, 5000, 100)) == 0
    assert counts.charge(ALICE, usage(FETCH, 0, 100)) == 10_000


def test_time_is_counted_for_every_api_and_held_up_a_window_at_most() -> None:
    counts = keeper({QuotaScope("alice", None): {"request_percentage": 1.0}})
    assert counts.times
    assert counts.charge(ALICE, usage(HEARTBEAT, busy_ms=100)) == 0
    assert counts.charge(ALICE, usage(HEARTBEAT, busy_ms=5)) == 500
    assert counts.charge(ALICE, usage(HEARTBEAT, busy_ms=10_000)) == 1000


def test_a_users_clients_share_and_others_do_not() -> None:
    counts = keeper({QuotaScope("alice", None): {"producer_byte_rate": 100.0}})
    assert counts.charge(ALICE, usage(PRODUCE, 1000)) == 0
    assert counts.charge(OTHER, usage(PRODUCE, 100)) == 1000
    counts = keeper({QuotaScope(None, DEFAULT): {"producer_byte_rate": 100.0}})
    assert counts.charge(ALICE, usage(PRODUCE, 1000)) == 0
    assert counts.charge(OTHER, usage(PRODUCE, 1000)) == 0


def test_client_ids_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "RATES_MAX", 10)
    monkeypatch.setattr(keeping, "CLIENTS_MAX", 10)
    counts = keeper({QuotaScope(None, DEFAULT): {"producer_byte_rate": 100.0}})
    for number in range(100):
        caller = Caller(version=9, client_id=f"client-{number}")
        counts.charge(caller, usage(PRODUCE, 10))
    assert len(counts._rates) <= 10
    assert len(counts._clients) <= 10


async def test_waiting_is_not_working() -> None:
    async def work() -> str:
        await let_run(0.5)
        sum(range(200_000))
        return "done"

    watch, began = Stopwatch(work()), time.monotonic()
    assert await watch == "done"
    assert time.monotonic() - began > 0.49 + watch.busy_s > 0.49


async def test_a_stopwatch_passes_on_what_is_thrown() -> None:
    seen, begun = [], asyncio.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def watched() -> None:
        await Stopwatch(work())

    task = asyncio.create_task(watched())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        await Stopwatch(fail())
