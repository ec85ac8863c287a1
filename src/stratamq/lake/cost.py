"""What keeping a topic costs in a year: on local disks alone, and with its history on an object
store. Pure.

A GB is 10^9 bytes, as prices have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stratamq.meta.tier.files import TierFile

GB = 1_000_000_000
TB = 1000 * GB
MONTHS = 12
DAYS = 365


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is written and how long it is stored. `ratio` is bytes on the object store per byte of
    the log, once: stores keep their own copies."""

    bytes_per_day: float
    days_kept: float
    local_days: float
    replicas: int
    ratio: float
    segment_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Prices, in whatever currency."""

    local_gb_month: float
    object_gb_month: float
    put_1000: float = 0.0


SEEDS_WORKLOAD = Workload(bytes_per_day=TB, days_kept=DAYS, local_days=7, replicas=3, ratio=0.36)
SEEDS_RATES = Rates(local_gb_month=0.016, object_gb_month=0.004)
"""The design's own example names its results ($210,000 and $10,000 a year for 1 TB a day) and no
rates. These are some with which they come out: slow disks, and objects that are rarely read. The
ratio is that of `make bench-tier`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YearlyCost:
    local_only: float
    local_part: float
    object_part: float
    puts: float

    @property
    def tiered(self) -> float:
        return self.local_part + self.object_part + self.puts

    @property
    def saving(self) -> float:
        """Of what local disks alone cost; below zero if tiers cost more."""
        return 1 - self.tiered / self.local_only if self.local_only else 0.0


def yearly(work: Workload, rates: Rates) -> YearlyCost:
    """Calculate the cost, as `formula` says."""
    local_days = min(work.local_days, work.days_kept)
    gb_per_day = work.bytes_per_day / GB
    local_gb_year = work.replicas * rates.local_gb_month * MONTHS
    cold_gb = gb_per_day * (work.days_kept - local_days) * work.ratio
    moves = work.days_kept > local_days
    return YearlyCost(
        local_only=gb_per_day * work.days_kept * local_gb_year,
        local_part=gb_per_day * local_days * local_gb_year,
        object_part=cold_gb * rates.object_gb_month * MONTHS,
        puts=moves * DAYS * work.bytes_per_day / work.segment_bytes * rates.put_1000 / 1000,
    )


def formula(work: Workload, rates: Rates) -> str:
    """Return the calculation as text, with these numbers in it."""
    cost = yearly(work, rates)
    local_days = min(work.local_days, work.days_kept)
    daily = f"{work.bytes_per_day / GB:,.6g} GB/day"
    disks = f"{work.replicas} replicas × {rates.local_gb_month:g}/GB/month × {MONTHS} months"
    cold_days = work.days_kept - local_days
    objects = f"{work.ratio:.3g} (packed) × {rates.object_gb_month:g}/GB/month × {MONTHS} months"
    puts = f"{DAYS} days × {work.bytes_per_day / work.segment_bytes:,.6g} files/day"
    return "\n".join(
        [
            f"local only  = {daily} × {work.days_kept:g} days × {disks} = {cost.local_only:,.0f}",
            f"tiered      = {daily} × {local_days:g} days × {disks} = {cost.local_part:,.0f}",
            f"            + {daily} × {cold_days:g} days × {objects} = {cost.object_part:,.0f}",
            f"            + {puts} × {rates.put_1000:g}/1000 puts = {cost.puts:,.0f}",
            f"            = {cost.tiered:,.0f}, which saves {cost.saving:.0%}",
        ]
    )


def measured_ratio(files: Iterable[TierFile]) -> float | None:
    """Bytes on the object store per byte of the log, of segments that were moved; None before one
    was."""
    moved = [file for file in files if file.final and file.log_bytes]
    log_bytes = sum(file.log_bytes for file in moved)
    return sum(file.size_bytes for file in moved) / log_bytes if log_bytes else None
