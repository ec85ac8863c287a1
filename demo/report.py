"""The answer as tables on the terminal, a picture, and a page that needs nothing from elsewhere."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from demo.question import Answer
from demo.tiers import TierRow

mpl.use("Agg")

TIER_COLUMNS = (
    *("topic", "storage", "records", "local", "cold records", "files", "cold", "in the log"),
)
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>StrataMQ demo</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto }}
table {{ border-collapse: collapse; margin: 1rem 0 }}
th, td {{ padding: .25rem .8rem; border-bottom: 1px solid #ddd; text-align: right }}
th:first-child, td:first-child {{ text-align: left }}
img {{ max-width: 100% }}
</style>
<h1>Which shop brews more than it sells?</h1>
{answer}
<img alt="Revenue by hour, unpaid cups by shop, records by tier" src="data:image/png;base64,{png}">
<h2>What happened where</h2>
{tiers}
<p>{story}</p>
</html>
"""


def size(count: int) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000  # type: ignore[assignment]
    raise AssertionError("the last unit ends it")


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


def show(console: Console, title: str, names: Sequence[str], cells: Iterable[list[str]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=not number)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def answer_cells(answer: Answer) -> tuple[list[str], list[list[str]]]:
    names = list(answer.by_shop[0])
    return names, [[_text(row[name]) for name in names] for row in answer.by_shop]


def plot(answer: Answer, tiers: Sequence[TierRow], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    by_hour, by_shop, by_tier = figure.subplots(1, 3)
    _hours(by_hour, answer)
    _shops(by_shop, answer)
    _tiers(by_tier, tiers)
    figure.savefig(path, dpi=110)


def _hours(axes: Any, answer: Answer) -> None:
    axes.bar([row["hour"] for row in answer.by_hour], [row["revenue"] for row in answer.by_hour])
    axes.set(title="Revenue by hour", xlabel="hour (UTC)")


def _shops(axes: Any, answer: Answer) -> None:
    rows = answer.by_shop[::-1]
    axes.barh([row["shop"] for row in rows], [row["unpaid"] for row in rows], color="tab:red")
    axes.set(title="Cups brewed and not paid for")


def _tiers(axes: Any, tiers: Sequence[TierRow]) -> None:
    names = [row.topic for row in tiers]
    cold = [row.cold_records for row in tiers]
    local = [row.records - row.cold_records for row in tiers]
    axes.barh(names, cold, label="Parquet, on object storage", color="tab:blue")
    axes.barh(names, local, left=cold, label="on the node only", color="tab:orange")
    axes.set(title="Records by tier")
    axes.legend()


def page(answer: Answer, tiers: Sequence[TierRow], story: str, png: Path, path: Path) -> None:
    names, cells = answer_cells(answer)
    text = PAGE.format(
        answer=_table(names, cells),
        tiers=_table(TIER_COLUMNS, tier_cells(tiers)),
        png=base64.b64encode(png.read_bytes()).decode(),
        story=html.escape(story),
    )
    path.write_text(text)


def _table(names: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in cells
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
