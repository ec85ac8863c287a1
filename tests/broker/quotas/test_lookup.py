"""Whose limit counts for whom: Kafka's order of precedence."""

from __future__ import annotations

import pytest

from stratamq.broker.kafka.quotas.manager import limit_of
from stratamq.meta.access import DEFAULT, Quota, QuotaScope

KIND = "producer_byte_rate"
ORDER = [
    QuotaScope("alice", "app"),
    QuotaScope("alice", DEFAULT),
    QuotaScope("alice", None),
    QuotaScope(DEFAULT, "app"),
    QuotaScope(DEFAULT, DEFAULT),
    QuotaScope(DEFAULT, None),
    QuotaScope(None, "app"),
    QuotaScope(None, DEFAULT),
]


def quotas(*scopes: QuotaScope) -> dict[QuotaScope, Quota]:
    return {scope: Quota(scope=scope, limits={KIND: float(ORDER.index(scope))}) for scope in scopes}


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_first_there_is_counts(first: int) -> None:
    found = limit_of(quotas(*ORDER[first:]), KIND, "alice", "app")
    assert found is not None
    assert found.per_second_max == first


def test_others_do_not_count() -> None:
    others = [QuotaScope("bob", "app"), QuotaScope("bob", None), QuotaScope(None, "other")]
    known = {scope: Quota(scope=scope, limits={KIND: 1.0}) for scope in others}
    assert limit_of(known, KIND, "alice", "app") is None
    assert limit_of(quotas(*ORDER), "consumer_byte_rate", "alice", "app") is None


@pytest.mark.parametrize(
    ("scope", "shared_by"),
    [
        (QuotaScope("alice", None), QuotaScope("alice", None)),
        (QuotaScope(DEFAULT, None), QuotaScope("alice", None)),
        (QuotaScope(DEFAULT, DEFAULT), QuotaScope("alice", "app")),
        (QuotaScope(None, DEFAULT), QuotaScope(None, "app")),
    ],
)
def test_who_shares_a_limit(scope: QuotaScope, shared_by: QuotaScope) -> None:
    found = limit_of(quotas(scope), KIND, "alice", "app")
    assert found is not None
    assert found.shared_by == shared_by
