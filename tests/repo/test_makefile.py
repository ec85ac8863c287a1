"""`make` explains itself, and what the documentation tells people to type exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROMISED = {"setup", "run", "test", "test-long", "check", "bench", "demo", "clean", "constraints"}


def make(*arguments: str) -> str:
    result = subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return result.stdout


def targets() -> set[str]:
    return set(re.findall(r"^  make ([a-z-]+) ", make(), re.MULTILINE))


def test_make_alone_prints_help_and_does_nothing_else() -> None:
    assert targets() >= PROMISED


def test_the_demo_says_in_one_line_when_it_comes() -> None:
    assert len(make("demo").splitlines()) == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_only_targets_that_exist(page: Path) -> None:
    named = set(re.findall(r"`(?:[A-Z]+=\S+ )?make ([a-z-]+)", page.read_text()))
    assert named <= targets()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
