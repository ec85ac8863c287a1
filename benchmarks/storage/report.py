"""Rows of a result table, and how they are printed and kept."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. `goal` is what it should be, in words; `met` says whether it is reached."""

    what: str
    ours: str
    ceiling: str = ""
    ratio: str = ""
    goal: str = ""
    met: bool | None = None


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float]) -> str:
    return f"{min(values):.2f}..{max(values):.2f}"


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def resident_mb(pid: int | None = None) -> float:
    """Memory of a process that is really there, page cache of mapped files included."""
    status = Path(f"/proc/{pid or os.getpid()}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def as_markdown(rows: Sequence[Row]) -> str:
    head = ("case", "ours", "ceiling", "ratio", "goal", "met")
    body = [
        (row.what, row.ours, row.ceiling, row.ratio, row.goal, _verdict(row.met)) for row in rows
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    lines = [_line(head, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    return "\n".join(lines + [_line(line, widths) for line in body])


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _verdict(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "NO"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return (
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        + " |"
    )
