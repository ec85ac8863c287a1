"""The answer as tables on the terminal, and as a page that needs nothing from elsewhere."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from demo.pipelines import sources
from demo.question import BY_SHOP, Answer
from demo.sizes import size
from demo.tiers import TierRow

TITLE = "Which shop brews more than it sells?"
TIER_COLUMNS = (
    *("topic", "storage", "records", "local", "cold records", "files", "cold", "in the log"),
)
STEP_COLUMNS = ("step", "seconds")
PIPELINE_COLUMNS = ("step of the pipeline", "rows")
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>StrataMQ demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light; --ink: #1f2933; --soft: #52606d; --line: #e4e7eb }}
body {{ font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: #f5f7fa; margin: 0 }}
main {{ max-width: 64rem; margin: 0 auto; padding: 2rem 1.5rem 4rem }}
section {{ background: #fff; border: 1px solid var(--line); border-radius: .6rem; margin: 1.2rem 0;
  padding: 1rem 1.5rem }}
nav a {{ display: inline-block; margin: 0 1rem .3rem 0 }}
a {{ color: #0b69a3 }}
.wide {{ overflow-x: auto }}
pre {{ background: #f5f7fa; border-radius: .4rem; padding: .8rem; margin: .4rem 0; overflow-x: auto;
  font-size: .85rem }}
button {{ font: inherit; font-size: .85rem; padding: .3rem .8rem; cursor: pointer }}
summary {{ cursor: pointer }}
h1 {{ font-size: 1.8rem; margin: 0 0 .3rem }}
h2 {{ font-size: 1.1rem; margin: .2rem 0 .8rem }}
p {{ color: var(--soft); margin: .3rem 0 }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }}
th {{ color: var(--soft); font-size: .85rem; font-weight: 600 }}
th, td {{ padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap }}
th:first-child, td:first-child {{ text-align: left }}
tr:last-child td {{ border-bottom: 0 }}
.answer tr:nth-child(2) td {{ font-weight: 600; color: #c0392b }}
img {{ width: 100%; display: block }}
@media (max-width: 40rem) {{
  main {{ padding: 1rem .6rem 2rem }}
  section {{ padding: .8rem }}
  h1 {{ font-size: 1.4rem }}
  .picture img {{ width: 56rem; max-width: none }}
}}
</style>
<main>
<h1>{title}</h1>
<p>{story}</p>
<nav><a href="#answer">The answer</a><a href="#sql">The SQL</a><a href="#pictures">Pictures</a>
<a href="#tiers">What is where</a><a href="#pipeline">The pipeline</a>
<a href="#steps">Times</a></nav>
<section class="answer" id="answer"><h2>The answer</h2>{answer}</section>
<section id="sql"><h2>The SQL that found it</h2>
<p>Over topics, wherever their records are. In PySpark:
<code>stratamq.spark.register(spark, "readings", "orders", "shops")</code>, then
<code>spark.sql(…)</code>.</p>
{sql}</section>
<section id="pictures"><div class="wide picture"><a href="{png_name}">
<img alt="Cups by shop, revenue by hour, records by tier, size before and after"
  src="data:image/png;base64,{png}"></a></div></section>
<section id="tiers"><h2>What is where</h2>{tiers}</section>
<section id="pipeline"><h2>A pipeline</h2>
<p>From the topic <code>orders</code> to a table, from there to revenue by hour, and large
orders back to a topic. The project is in <a href="pipeline">pipeline</a>;
<code>stratamq pipeline run</code> there runs it again.</p>
{pipeline}{sources}</section>
<section id="steps"><h2>What took how long</h2>{steps}</section>
</main>
<script>
for (const button of document.querySelectorAll("button[data-copies]"))
  button.onclick = () => {{
    const text = document.getElementById(button.dataset.copies);
    getSelection().selectAllChildren(text);
    document.execCommand("copy");
    button.textContent = "Copied";
  }};
</script>
</html>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything there is to be told."""

    answer: Answer
    tiers: Sequence[TierRow]
    steps: Sequence[tuple[str, float]]
    """What was done, and the seconds it took."""
    pipeline: Mapping[str, int]
    """The rows of each step of the pipeline."""

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
    rows = [[name, f"{count:,}"] for name, count in results.pipeline.items()]
    _show(console, "A pipeline", PIPELINE_COLUMNS, rows)
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
    rows = [[name, f"{count:,}"] for name, count in results.pipeline.items()]
    text = PAGE.format(
        title=html.escape(TITLE),
        story=html.escape(results.story),
        answer=_table(*answer_cells(results.answer)),
        tiers=_table(TIER_COLUMNS, tier_cells(results.tiers)),
        steps=_table(STEP_COLUMNS, steps),
        sql=_code("by-shop", BY_SHOP.strip()),
        pipeline=_table(PIPELINE_COLUMNS, rows),
        sources="".join(_source(number, *one) for number, one in enumerate(sources().items())),
        png_name=html.escape(png.name),
        png=base64.b64encode(png.read_bytes()).decode(),
    )
    path.write_text(text)


def _table(names: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{_row(row)}</tr>" for row in cells)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _code(name: str, text: str) -> str:
    """Text with a button that copies it; the page may be a file, where browsers have no clipboard
    for scripts, so that the text is selected as well."""
    button = f'<button type="button" data-copies="{name}">Copy</button>'
    return f'{button}<pre id="{name}">{html.escape(text)}</pre>'


def _source(number: int, name: str, text: str) -> str:
    code = _code(f"source-{number}", text)
    return f"<details><summary>{html.escape(name)}</summary>{code}</details>"


def _row(cells: Sequence[str]) -> str:
    return "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)
