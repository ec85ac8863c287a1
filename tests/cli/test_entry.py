"""The short way into `stratamq server`, and who is sent the long way."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from stratamq.cli import server
from stratamq.cli.entry import plain_flags

COMMAND = [sys.executable, "-m", "stratamq.cli"]


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["server"], {}),
        (["server", "--kafka-port", "0"], {"--kafka-port": "0"}),
        (["server", "--kafka-port=0"], {"--kafka-port": "0"}),
        (["server", "--console-port", "-1"], {"--console-port": "-1"}),
        (
            ["server", "--config", "a.toml", "--data-dir=b=c"],
            {"--config": "a.toml", "--data-dir": "b=c"},
        ),
        (["server", "--kafka-port", "1", "--kafka-port", "2"], {"--kafka-port": "2"}),
    ],
)
def test_known_flags_need_nobody_else(words: list[str], flags: dict[str, str]) -> None:
    assert plain_flags(words) == flags


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--help"],
        ["config"],
        ["server", "--help"],
        ["server", "-h"],
        ["server", "--kafka-prt", "0"],
        ["server", "--kafka-port"],
        ["server", "--kafka-port="],
        ["server", "--kafka-port", "--data-dir", "x"],
        ["server", "more"],
    ],
)
def test_everything_else_is_left_to_the_long_way(words: list[str]) -> None:
    assert plain_flags(words) is None


def test_both_ways_complain_alike(tmp_path: Path) -> None:
    wrong = ["--kafka-port", "x", "--data-dir", str(tmp_path)]
    short = subprocess.run([*COMMAND, "server", *wrong], capture_output=True, text=True, timeout=60)
    long = subprocess.run([*COMMAND, "config", *wrong], capture_output=True, text=True, timeout=60)
    assert "is not a whole number" in short.stderr
    assert (short.returncode, short.stderr) == (long.returncode, long.stderr)


@pytest.mark.parametrize("module", ["typer", "tomllib", "email", "argparse", "zipfile"])
def test_a_node_that_starts_does_not_wait_for(module: str, imported: frozenset[str]) -> None:
    assert "stratamq.node.core" in imported
    assert module not in imported


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    """The modules of a node that is about to start."""
    program = "import sys, stratamq.cli.entry, stratamq.cli.server; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return frozenset(done.stdout.split())


def test_a_node_that_is_ready_collects_its_garbage(capsys: pytest.CaptureFixture[str]) -> None:
    thresholds = gc.get_threshold()
    gc.disable()
    try:
        server._announce("ready")
        assert gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
        gc.set_threshold(*thresholds)
    assert capsys.readouterr().out == "ready\n"
