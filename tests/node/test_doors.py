"""A whole node runs on twins: no real file, no clock, no chance of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.node.program import DATA, GROUPS, PARTITIONS


def start(hash_seed: str) -> subprocess.Popen[str]:
    """The program, in a process with this seed for the hashes of strings."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.node.program"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(program: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = program.communicate()
    assert program.returncode == 0, errors
    found: dict[str, Any] = json.loads(output)
    return found


def test_two_processes_do_the_same() -> None:
    """Metadata row by row, and every file."""
    first, second = [end(program) for program in [start("1"), start("2")]]
    assert first["metadata"] == second["metadata"]
    assert first["files"] == second["files"]
    assert len(first["metadata"]) > len(GROUPS) * PARTITIONS
    assert {f"{DATA}/cluster.id", f"{DATA}/sasl.secret"} <= first["files"].keys()
