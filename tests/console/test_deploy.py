"""The dashboard and the alert rules name what a real node has, and every alert has its entry in the
runbook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stratamq.console.metrics import METRICS
from tests.clients.node import ROOT, running
from tests.console.metrics import scrape
from tests.console.web import address_of
from tests.waiting import every

DASHBOARD = ROOT / "deploy" / "grafana" / "stratamq.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
NAME = re.compile(r"stratamq_\w+")
SELECTOR = re.compile(r"(stratamq_\w+)\{([^}]*)\}")
LABEL = re.compile(r"(\w+)\s*[=!]")
GROUPING = re.compile(r"by \(([^)]*)\)")
BY_PROMETHEUS = {"instance", "job", "le"}


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> list[str]:
    shown = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    return [*shown, *(rule["expr"] for rule in rules())]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of samples that a node has, or will have when there is something to count."""
    with running(tmp_path_factory.mktemp("deploy"), "--console-port", "0") as node:
        families = scrape(address_of(node.ready)).families.values()
        assert node.end() == 0
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
    return {one.name + end for one in families for end in suffixes.get(one.type, [""])}


def test_every_metric_that_is_named_is_served(served: set[str]) -> None:
    for expression in every(expressions()):
        if expression.startswith("up{"):
            continue
        named = set(NAME.findall(expression))
        assert named, expression
        assert named <= served, expression


def test_every_label_that_is_named_is_one_of_its_metric() -> None:
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    for expression in every(expressions()):
        known = set(BY_PROMETHEUS)
        for name in NAME.findall(expression):
            known |= labels[re.sub("_(bucket|sum|count)$", "", name)]
        used = {
            label for _, inside in SELECTOR.findall(expression) for label in LABEL.findall(inside)
        }
        for inside in GROUPING.findall(expression):
            used |= {label.strip() for label in inside.split(",")}
        assert used <= known, expression


def test_the_dashboard_shows_every_metric() -> None:
    shown = " ".join(expressions())
    omitted = {"stratamq_group_lag_omitted", "stratamq_history_backlog_segments"}
    omitted |= {"stratamq_history_failures_total", "stratamq_history_last_success_seconds"}
    assert {metric.name for metric in METRICS if metric.name not in shown} == omitted


def test_panels_have_a_place_and_a_number_of_their_own() -> None:
    numbers = [panel["id"] for panel in panels()]
    assert len(numbers) == len(set(numbers))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len(places) == len(set(places))


def test_every_alert_has_its_entry_in_the_runbook() -> None:
    headings = set(re.findall(r"^### (\w+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE))
    for rule in every(rules()):
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert Path(ROOT / page).name == "runbook.md"
        assert anchor == rule["alert"].lower()
        assert rule["alert"] in headings
        assert rule["labels"]["severity"] in ("warning", "critical")
    assert {rule["alert"] for rule in rules()} == {one for one in headings if "StrataMQ" in one}
