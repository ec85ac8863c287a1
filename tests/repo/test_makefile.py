"""`make` explains itself, and what the documentation tells people to type exists."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROMISED = {"setup", "run", "test", "test-long", "check", "bench", "demo", "clean", "constraints"}

OUTSIDE = {name: value for name, value in os.environ.items() if name not in ("ARGS", "MAKEFLAGS")}
"""Without what the `make test` around this test was told."""


def make(*arguments: str) -> str:
    result = subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env=OUTSIDE,
    )
    return result.stdout


def targets() -> set[str]:
    return set(re.findall(r"^  make ([a-z-]+) ", make(), re.MULTILINE))


def test_make_alone_prints_help_and_does_nothing_else() -> None:
    assert targets() >= PROMISED


def test_the_demo_is_a_module_that_is_there() -> None:
    module = re.search(r"python -m (\w+)", make("--dry-run", "demo"))
    assert module is not None
    assert (ROOT / module[1] / "__main__.py").is_file()


def test_make_run_says_ready_once_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    process = subprocess.Popen(
        ["make", "--silent", "-C", str(ROOT), "run", f"DATA={tmp_path}", "ARGS=--kafka-port 0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=OUTSIDE,
        start_new_session=True,  # Ctrl-C goes to the whole group, as in a terminal
    )
    try:
        assert process.stdout
        lines = iter(process.stdout.readline, "")
        ready = next(lines, "") or process.communicate()[1]
        assert re.fullmatch(rf"ready kafka=\S+:\d+ console=\S+:\d+ data={tmp_path} node=1\n", ready)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert output == ""
    assert errors.rstrip().endswith("stopped")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_only_targets_that_exist(page: Path) -> None:
    named = set(re.findall(r"`(?:[A-Z]+=\S+ )?make ([a-z-]+)", page.read_text()))
    assert named <= targets()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
