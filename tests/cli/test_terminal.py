"""What commands do on a terminal only: ask, and show how far they are."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from stratamq.cli import progress
from stratamq.cli.progress import ProgressLine
from tests.cli.tool import CLEAN, ROOT, SECONDS_MAX, Tool


def answered(tool: Tool, answer: str, *words: str) -> tuple[int, str]:
    """Exit code and standard error of a command whose standard input is a terminal."""
    ours, its = pty.openpty()
    try:
        os.write(ours, answer.encode())
        done = subprocess.run(
            [sys.executable, "-m", "stratamq.cli", *words],
            stdin=its,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **CLEAN, **tool.env},
        )
    finally:
        os.close(ours)
        os.close(its)
    return done.returncode, done.stderr


def test_what_cannot_be_undone_is_asked(tool: Tool) -> None:
    tool.ok("topic", "create", "asked")
    code, said = answered(tool, "n\n", "topic", "delete", "asked")
    assert code == 1
    assert "Delete asked with all records?" in said
    assert "nothing was changed" in said
    tool.ok("topic", "describe", "asked")
    assert answered(tool, "y\n", "topic", "delete", "asked")[0] == 0
    tool.fails(5, "topic", "describe", "asked")


def test_long_input_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, its = pty.openpty()
    with os.fdopen(its, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(progress, "PROGRESS_S", 0)
        line = ProgressLine()
        line.update("1,234 records, 5.0 KB")
        line.clear()
        shown = b""
        while b"\x1b[K\r" not in shown:
            shown += os.read(ours, 1024)
    os.close(ours)
    assert b"\r1,234 records, 5.0 KB" in shown


def test_a_pipe_gets_no_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PROGRESS_S", 0)
    line = ProgressLine()
    line.update("1,234 records, 5.0 KB")
    line.clear()
    assert capsys.readouterr() == ("", "")
