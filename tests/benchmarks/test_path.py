"""The way of one record stays short: what `python -m benchmarks.path` counts, and what the walk in
docs/ARCHITECTURE.md says of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.path.__main__ import CASES
from benchmarks.path.counting import Way
from stratamq.engine import pool
from stratamq.server.kafka import session

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "ARCHITECTURE.md"

CALLS_MAX = {"produce, flush=os": 90, "produce, flush=sync": 90, "fetch": 80}
FILES_MAX = 20


@pytest.fixture(scope="module", params=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[str, Way]:
    name: str = request.param
    with pytest.MonkeyPatch.context() as patched:  # a slow machine does not lengthen the way
        patched.setattr(session, "TURN_S", 60.0)
        patched.setattr(pool, "SHORT_S", 60.0)
        return name, CASES[name]()


def usual_calls(way: Way) -> int:
    """What a busy disk or a timer adds to fewer than half of the requests is not counted."""
    return sum(round(times) for _, times in way.steps)


def walked(column: str) -> set[str]:
    """The files that the table of the walk names for "Produce" or "Fetch"."""
    text = ARCHITECTURE.read_text()
    rows = re.findall(r"^\| [^|]+ \| (`.+) \| (\w+) \|$", text, re.MULTILINE)
    return {
        file
        for files, way in rows
        if way in ("both", column)
        for file in re.findall(r"`([^`]+)`", files)
    }


def test_the_calls_are_few(case: tuple[str, Way]) -> None:
    name, way = case
    assert 40 < usual_calls(way) <= CALLS_MAX[name], way.steps


def test_the_files_are_few_and_the_walk_names_them(case: tuple[str, Way]) -> None:
    name, way = case
    documented = walked("Fetch" if name == "fetch" else "Produce")
    assert len(documented) <= FILES_MAX
    assert len(way.files) <= FILES_MAX, way.files
    assert set(way.files) <= documented
