"""Prints a table and keeps it in `benchmarks/results/tier.md`. Machines differ and are noisy: read
the ratios, not the rates."""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path

import uvloop

from benchmarks.lake import converting, reading, serving
from benchmarks.storage.report import as_markdown, machine

RESULTS = Path(__file__).parents[1] / "results" / "tier.md"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="stratamq-bench-") as folder:
        rows = uvloop.run(reading.measure(Path(folder)))
    with tempfile.TemporaryDirectory(prefix="stratamq-bench-") as folder:
        served = serving.measure(Path(folder))
    table = as_markdown([*converting.run(), *rows, *served])
    print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(f"# History\n\n`make bench-tier`, {date.today()}, {machine()}.\n\n{table}\n")


if __name__ == "__main__":
    main()
