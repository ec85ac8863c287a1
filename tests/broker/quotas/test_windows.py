"""Rates and how long to be quiet, with the hands of the clock in ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.broker.kafka.quotas.manager import QuotaRate, QuotaWindows

TEN_SECONDS = QuotaWindows(11, 1000)


def test_a_burst_counts_over_all_windows_but_one() -> None:
    """As in Kafka: 10 windows of a second, 100 per second: 1000 at once are just allowed."""
    rate = QuotaRate(TEN_SECONDS)
    rate.add(1000, 0)
    assert rate.quiet_ms(100, 0) == 0
    rate.add(500, 0)
    assert rate.quiet_ms(100, 0) == 5000, "1500 take 15 seconds, 10 of which are behind us"


def test_a_steady_use_within_the_limit_is_never_held_up() -> None:
    rate = QuotaRate(TEN_SECONDS)
    for second in range(100):
        rate.add(90, second * 1000)
        assert rate.quiet_ms(100, second * 1000) == 0


def test_what_is_long_ago_does_not_count() -> None:
    rate = QuotaRate(TEN_SECONDS)
    rate.add(1e9, 0)
    assert not rate.is_idle(10_999)
    assert rate.is_idle(11_000)
    assert rate.quiet_ms(1, 11_000) == 0


@pytest.mark.parametrize("limit", [10.0, 1000.0])
def test_whoever_obeys_comes_down_to_the_limit(limit: float) -> None:
    rate, now, total = QuotaRate(TEN_SECONDS), 0.0, 0.0
    while now < 200_000:
        rate.add(limit, now)
        total += limit
        now += rate.quiet_ms(limit, now) + 1
    assert total / (now / 1000) == pytest.approx(limit, rel=0.15)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 5000)), max_size=50),
    st.floats(0.001, 1e9),
    st.integers(2, 20),
)
def test_quiet_is_never_negative_and_ends(
    uses: list[tuple[float, int]], limit: float, count: int
) -> None:
    rate, now = QuotaRate(QuotaWindows(count, 1000)), 0
    for amount, pause in uses:
        now += pause
        rate.add(amount, now)
        assert rate.quiet_ms(limit, now) >= 0
    assert rate.quiet_ms(limit, now + count * 1000) == 0
