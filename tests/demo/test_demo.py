"""The demo's parts, and the demo itself, smaller."""

from __future__ import annotations

import html
import io
import json
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from demo import report
from demo.picture import plot
from demo.pipelines import STEP, sources
from demo.question import BY_SHOP, Answer
from demo.shops import DAY_MS, LEAKY, SHOPS, Size, day
from demo.sizes import size
from demo.tiers import TierRow
from demo.topics import TOPICS
from stratamq.cli.pipeline import _table
from stratamq.lake.declared import declared
from stratamq.pipelines.steps import PipelineStep
from tests.waiting import every

ROOT = Path(__file__).resolve().parents[2]
SMALL = Size(step_ms=300_000)
TIERS = [TierRow("readings", "EngineSegment", 100, 2_000, 80, 1_500, 9_000, 3)]


def test_a_day_is_the_same_every_time() -> None:
    assert list(day(0, 1, SMALL)) == list(day(0, 1, SMALL))
    assert list(day(0, 1, SMALL)) != list(day(0, 2, SMALL))


def test_all_shops_but_one_sell_what_they_brew() -> None:
    brewed: Counter[str] = Counter()
    sold: Counter[str] = Counter()
    for one in every(day(0, 1, SMALL)):
        value = json.loads(one.value)
        assert 0 <= one.timestamp < DAY_MS
        if one.topic == "readings":
            brewed[value["machine"]] = value["cups"]
        else:
            sold[value["shop"]] += 1
    unpaid = {shop: brewed[f"{shop}-0"] + brewed[f"{shop}-1"] - sold[shop] for shop in SHOPS}
    assert [shop for shop, cups in unpaid.items() if cups] == [LEAKY]


def test_topics_say_what_their_values_are() -> None:
    for topic in TOPICS:
        declared(
            topic.configs.get("lake.value.format", "none"),
            topic.configs.get("lake.value.schema", ""),
        )
    assert len({topic.configs["storage.type"] for topic in TOPICS}) == 3


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    answer = Answer(
        [{"shop": "<Hafen>", "orders": 7, "unpaid": 5, "revenue": 1.5}],
        [{"hour": 8, "orders": 3, "revenue": 9.0}],
    )
    png, page = tmp_path / "demo.png", tmp_path / "demo.html"
    plot(answer, TIERS, png)
    results = report.Results(
        answer=answer, tiers=TIERS, steps=[("a", 2.2), ("<b>", 3.1)], pipeline={"paid": 3}
    )
    report.page(results, png, page)
    text = page.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "&lt;Hafen&gt;" in text
    assert "&lt;b&gt;" in text
    assert "100 records in three topics; 80 of them" in text
    assert "took 5 seconds" in text
    assert "http" not in text
    assert "src=" in text
    assert "data:image/png;base64," in text


class PageParts(HTMLParser):
    """What a browser would find: targets, links, buttons, and whether tables can scroll."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.copies: list[str] = []
        self.tables: list[bool] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given["id"]} if "id" in given else set()
        self.links += [given["href"]] if "href" in given else []
        self.copies += [given["data-copies"]] if "data-copies" in given else []
        if tag == "div":
            self._open.append(given.get("class", ""))
        if tag == "table":
            self.tables.append("wide" in self._open[-1:])

    def handle_endtag(self, tag: str) -> None:
        if tag == "div":
            self._open.pop()


def test_the_page_can_be_clicked_and_fits_a_phone(tmp_path: Path) -> None:
    answer = Answer([{"shop": "Hafen", "unpaid": 5}], [{"hour": 8, "orders": 3, "revenue": 9.0}])
    png, page = tmp_path / "demo.png", tmp_path / "demo.html"
    png.write_bytes(b"a picture")
    (tmp_path / "pipeline").mkdir()
    results = report.Results(answer=answer, tiers=TIERS, steps=[("a", 2.2)], pipeline={"paid": 3})
    report.page(results, png, page)
    text = page.read_text()
    found = PageParts(text)
    inside = {link[1:] for link in found.links if link.startswith("#")}
    assert {"answer", "sql", "pipeline", "tiers", "steps"} <= inside <= found.ids
    others = [link for link in found.links if not link.startswith("#")]
    assert sorted(others) == ["demo.png", "pipeline"]
    assert set(found.copies) <= found.ids
    assert len(found.copies) == 1 + len(sources())
    assert html.escape(BY_SHOP.strip()) in text
    assert found.tables == [True] * 4, "each scrolls by itself, and the page does not"
    assert "width=device-width, initial-scale=1" in text


def test_the_pipeline_is_the_one_that_the_page_shows() -> None:
    assert set(sources()) == {
        *("spark-pipeline.yml", "transformations/orders.py", "transformations/shop_hours.sql"),
    }


def test_rows_of_steps_are_read_from_what_the_command_prints() -> None:
    steps = [PipelineStep("paid_orders", "COMPLETED", 1234, 0), PipelineStep("view", "COMPLETED")]
    printed = io.StringIO()
    Console(file=printed, width=80).print(_table(steps))
    assert STEP.findall(printed.getvalue()) == [("paid_orders", "1,234"), ("view", "")]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (2_500_000, "2.5 MB")]
)
def test_sizes_are_readable(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.long
@pytest.mark.needs("java")
def test_the_demo_finds_the_shop(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo", "--folder", str(tmp_path), "--step-ms", "60000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("Which shop") :]
    assert LEAKY in table.split("│")[1], "the shop that gives coffee away comes first"
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    assert (tmp_path / "demo.html").is_file()
    pipeline = done.stdout[done.stdout.index("A pipeline") :]
    for step in ("paid_orders", "shop_hours", "large_orders"):
        assert re.search(rf"{step} +│ +[1-9]", pipeline), pipeline
