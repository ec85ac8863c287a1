"""Samples of the systems, side by side."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from benchmarks.kafka.brokers import FLUSH_OS, FLUSH_SYNC, KAFKA, SYSTEMS


class Goal(Enum):
    """What the ratio ours/Kafka should be. Only flush=os promises what Kafka does by default."""

    FASTER = (">= 1.0", 1.0)
    SOONER = ("<= 1.0", 1.0)
    QUARTER = ("<= 0.25", 0.25)
    TENTH = ("<= 0.1", 0.1)
    NONE = ("", 0.0)

    def met(self, ratio: float) -> bool | None:
        if self is Goal.NONE:
            return None
        return ratio >= self.value[1] if self is Goal.FASTER else ratio <= self.value[1]


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement. `cpu` is the broker's processor seconds per GB, where it makes sense."""

    value: float
    cpu: float | None = None


@dataclass(slots=True)
class Row:
    what: str
    unit: str
    goal: Goal
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def add(self, system: str, sample: Sample) -> None:
        self.samples.setdefault(system, []).append(sample)


def ratios(row: Row, system: str) -> list[float]:
    """Round by round: what slows the machine for a while slows both."""
    pairs = zip(row.samples.get(system, ()), row.samples.get(KAFKA, ()), strict=False)
    return [ours.value / theirs.value for ours, theirs in pairs]


def as_markdown(rows: Sequence[Row]) -> str:
    head = [
        *("case", "unit", *SYSTEMS, "os/Kafka", "goal", "met", "sync/Kafka"),
        "CPU s/GB: Kafka, os, sync",
    ]
    body = [_cells(row) for row in rows]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([_line(head, widths), rule, *(_line(cells, widths) for cells in body)])


def summary(rows: Sequence[Row]) -> str:
    """How many rows with a goal reach it."""
    verdicts = [verdict for row in rows if (verdict := _met(row)) is not None]
    return f"{sum(verdicts)} of {len(verdicts)} rows with a goal reach it."


def _cells(row: Row) -> list[str]:
    met = _met(row)
    return [
        row.what,
        row.unit,
        *(_number(_median(row.samples, system)) for system in SYSTEMS),
        _spread(ratios(row, FLUSH_OS)),
        row.goal.value[0],
        "" if met is None else "yes" if met else "NO",
        _spread(ratios(row, FLUSH_SYNC)),
        ", ".join(_cpu(row, system) for system in SYSTEMS) if _has_cpu(row) else "",
    ]


def _met(row: Row) -> bool | None:
    found = ratios(row, FLUSH_OS)
    return row.goal.met(statistics.median(found)) if found else None


def _median(samples: Mapping[str, Sequence[Sample]], system: str) -> float | None:
    values = [sample.value for sample in samples.get(system, ())]
    return statistics.median(values) if values else None


def _has_cpu(row: Row) -> bool:
    return any(sample.cpu is not None for all_ in row.samples.values() for sample in all_)


def _cpu(row: Row, system: str) -> str:
    values = [one.cpu for one in row.samples.get(system, ()) if one.cpu is not None]
    return f"{statistics.median(values):.1f}" if values else "-"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = f"{statistics.median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.2f}..{max(values):.2f})"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
