"""`scripts/install`, which `make setup` runs: minutes of downloads do not look like a hang."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIP = """#!/bin/sh
echo "$@" > asked
echo "Collecting cramjam==2.11 (from -r constraints.txt (line 1))"
echo "  Using cached cramjam.whl"
echo "Collecting uvloop==0.22"
%s
"""


def installed(folder: Path, last_words: str) -> subprocess.CompletedProcess[str]:
    """In a checkout whose Python is a script that talks as pip does."""
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "install", folder / "scripts" / "install")
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PIP % last_words)
    python.chmod(0o755)
    command = [folder / "scripts" / "install", "-r", "constraints.txt"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_each_package_is_named_as_it_is_fetched(tmp_path: Path) -> None:
    done = installed(tmp_path, "exit 0")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "  cramjam==2.11\n  uvloop==0.22\n"
    asked = (tmp_path / "asked").read_text()
    assert "--require-hashes -r constraints.txt" in asked


def test_a_failure_ends_with_pip_s_own_words(tmp_path: Path) -> None:
    done = installed(tmp_path, 'echo "ERROR: no such version"; exit 3')
    assert done.returncode == 1
    assert done.stderr.endswith("ERROR: no such version\n")
