"""What keeping data costs: the figures the design was argued with, and the user's own."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.lake.cost import (
    GB,
    SEEDS_RATES,
    SEEDS_WORKLOAD,
    Rates,
    Workload,
    formula,
    measured_ratio,
    yearly,
)
from stratamq.meta.tier.files import TierFile, TierObject
from stratamq.model.types import Offset, ShardName


def test_the_designs_own_example() -> None:
    """1 TB a day, kept for a year: 210,000 on local disks, 10,000 with tiers, 95 % less."""
    cost = yearly(SEEDS_WORKLOAD, SEEDS_RATES)
    assert round(cost.local_only, -4) == 210_000
    assert round(cost.tiered, -3) == 10_000
    assert round(cost.saving, 2) == 0.95


def test_by_hand() -> None:
    work = Workload(
        bytes_per_day=100 * GB,
        days_kept=30,
        local_days=2,
        replicas=2,
        ratio=0.5,
        segment_bytes=GB,
    )
    rates = Rates(local_gb_month=0.1, object_gb_month=0.02, put_1000=0.005)
    cost = yearly(work, rates)
    assert cost.local_only == pytest.approx(100 * 30 * 2 * 0.1 * 12)
    assert cost.local_part == pytest.approx(100 * 2 * 2 * 0.1 * 12)
    assert cost.object_part == pytest.approx(100 * 28 * 0.5 * 0.02 * 12)
    assert cost.puts == pytest.approx(365 * 100 * 0.005 / 1000)
    assert cost.tiered == pytest.approx(480 + 336 + 0.1825)
    assert cost.saving == pytest.approx(1 - 816.1825 / 7200)


def test_the_formula_is_shown_with_its_numbers() -> None:
    assert formula(SEEDS_WORKLOAD, SEEDS_RATES).splitlines() == [
        "local only  = 1,000 GB/day × 365 days × 3 replicas × 0.016/GB/month × 12 months = 210,240",
        "tiered      = 1,000 GB/day × 7 days × 3 replicas × 0.016/GB/month × 12 months = 4,032",
        "            + 1,000 GB/day × 358 days × 0.36 (packed) × 0.004/GB/month × 12 months"
        " = 6,186",
        "            + 365 days × 931.323 files/day × 0/1000 puts = 0",
        "            = 10,218, which saves 95%",
    ]


def test_what_is_kept_for_less_than_it_is_local_never_moves() -> None:
    work = dataclasses.replace(SEEDS_WORKLOAD, days_kept=3)
    cost = yearly(work, dataclasses.replace(SEEDS_RATES, put_1000=1.0))
    assert cost.tiered == cost.local_only == cost.local_part
    assert cost.saving == 0


@given(st.floats(0, 1e15), st.floats(0, 1000), st.floats(0, 1000), st.floats(0, 2))
def test_it_always_gives_numbers(daily: float, kept: float, local: float, ratio: float) -> None:
    work = Workload(bytes_per_day=daily, days_kept=kept, local_days=local, replicas=3, ratio=ratio)
    cost = yearly(work, SEEDS_RATES)
    assert cost.tiered >= cost.local_part >= 0
    assert cost.saving <= 1
    assert "saves" in formula(work, SEEDS_RATES)


def file(size: int, log_bytes: int, *, final: bool = True) -> TierFile:
    return TierFile(
        shard=ShardName("a_0"),
        base_offset=Offset(0),
        end_offset=Offset(1),
        final=final,
        parquet=TierObject("a", size, 0),
        log_bytes=log_bytes,
    )


def test_compression_is_measured_on_what_was_moved() -> None:
    assert measured_ratio([]) is None
    assert measured_ratio([file(10, 100, final=False)]) is None
    found = measured_ratio([file(10, 100), file(50, 100), file(999, 1, final=False)])
    assert found == pytest.approx(0.3)
