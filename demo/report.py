"""The answer as tables on the terminal, and as a page that needs nothing from elsewhere."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from demo.question import Answer
from demo.sizes import size
from demo.tiers import TierRow

TITLE = "Which shop brews more than it sells?"
TIER_COLUMNS = (
    *("topic", "storage", "records", "local", "cold records", "files", "cold", "in the log"),
)
STEP_COLUMNS = ("step", "seconds")
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>StrataMQ demo</title>
<meta name="viewport" content="width=device-width">
<style>
:root {{ color-scheme: light; --ink: #1f2933; --soft: #52606d; --line: #e4e7eb }}
body {{ font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: #f5f7fa; margin: 0 }}
main {{ max-width: 64rem; margin: 0 auto; padding: 2rem 1.5rem 4rem }}
section {{ background: #fff; border: 1px solid var(--line); border-radius: .6rem; margin: 1.2rem 0;
  padding: 1rem 1.5rem; overflow-x: auto }}
h1 {{ font-size: 1.8rem; margin: 0 0 .3rem }}
h2 {{ font-size: 1.1rem; margin: .2rem 0 .8rem }}
p {{ color: var(--soft); margin: .3rem 0 }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }}
th {{ color: var(--soft); font-size: .85rem; font-weight: 600 }}
th, td {{ padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: right }}
th:first-child, td:first-child {{ text-align: left }}
tr:last-child td {{ border-bottom: 0 }}
.answer tr:nth-child(2) td {{ font-weight: 600; color: #c0392b }}
img {{ width: 100%; display: block }}
</style>
<main>
<h1>{title}</h1>
<p>{story}</p>
<section class="answer"><h2>The answer</h2>{answer}</section>
<section><img alt="Cups by shop, revenue by hour, records by tier, size before and after"
  src="data:image/png;base64,{png}"></section>
<section><h2>What happened where</h2>{tiers}</section>
<section><h2>What took how long</h2>{steps}</section>
</main>
</html>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything there is to be told."""

    answer: Answer
    tiers: Sequence[TierRow]
    steps: Sequence[tuple[str, float]]
    """What was done, and the seconds it took."""

    @property
    def story(self) -> str:
        cold = sum(row.cold_records for row in self.tiers)
        records = sum(row.records for row in self.tiers)
        seconds = sum(took for _, took in self.steps)
        return (
            f"{records:,} records in three topics; {cold:,} of them ended up in Parquet files on "
            "object storage. Spark read each of them once, wherever it was, and joined them. "
            f"All of it took {seconds:.0f} seconds."
        )


def tier_cells(rows: Iterable[TierRow]) -> list[list[str]]:
    return [
        [
            row.topic,
            row.storage.removeprefix("Engine"),
            f"{row.records:,}",
            size(row.local_bytes),
            f"{row.cold_records:,}",
            str(row.files),
            size(row.cold_bytes),
            size(row.moved_bytes),
        ]
        for row in rows
    ]


def answer_cells(answer: Answer) -> tuple[list[str], list[list[str]]]:
    names = list(answer.by_shop[0])
    return names, [[_text(row[name]) for name in names] for row in answer.by_shop]


def show(console: Console, results: Results) -> None:
    _show(console, TITLE, *answer_cells(results.answer))
    _show(console, "What happened where", TIER_COLUMNS, tier_cells(results.tiers))
    console.print(results.story)


def _show(console: Console, title: str, names: Sequence[str], cells: Iterable[list[str]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=not number)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def page(results: Results, png: Path, path: Path) -> None:
    steps = [[what, f"{seconds:.1f}"] for what, seconds in results.steps]
    text = PAGE.format(
        title=html.escape(TITLE),
        story=html.escape(results.story),
        answer=_table(*answer_cells(results.answer)),
        tiers=_table(TIER_COLUMNS, tier_cells(results.tiers)),
        steps=_table(STEP_COLUMNS, steps),
        png=base64.b64encode(png.read_bytes()).decode(),
    )
    path.write_text(text)


def _table(names: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{_row(row)}</tr>" for row in cells)
    return f"<table><tr>{head}</tr>{body}</table>"


def _row(cells: Sequence[str]) -> str:
    return "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
