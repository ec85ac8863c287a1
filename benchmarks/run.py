"""Speed and size of the storage core: `make bench`, or `python -m benchmarks.run [case ...]`.

Prints a table and keeps it in `benchmarks/results/storage.md`. Machines differ and are noisy: read
the ratios, not the rates.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

from benchmarks.storage import (
    appending,
    many_shards,
    many_topics,
    one_wave,
    records,
    ten_million,
)
from benchmarks.storage.report import Row, as_markdown, machine

CASES: dict[str, Callable[[], list[Row]]] = {
    "append": appending.run,
    "wave": one_wave.run,
    "records": records.run,
    "ten-million": ten_million.run,
    "many-shards": many_shards.run,
    "many-topics": many_topics.run,
}
RESULTS = Path(__file__).parent / "results" / "storage.md"


def main(chosen: list[str]) -> None:
    rows: list[Row] = []
    for name in chosen or list(CASES):
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += CASES[name]()
    table = as_markdown(rows)
    print(table)
    if not chosen:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(
            f"# Storage core\n\n`make bench`, {date.today()}, {machine()}. "
            f"[What falls short, and why](storage-profile.md).\n\n{table}\n"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
