"""`stratamq user`: real processes on a real folder; a password leaves no trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stratamq.node.data_dir import DataDirLock

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct horse battery staple"


def user(data: Path, *arguments: str, given: str = PASSWORD) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*(sys.executable, "-m", "stratamq.cli", "user"), *arguments, "--data-dir", str(data)],
        input=given + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def test_users_are_added_listed_and_removed(tmp_path: Path) -> None:
    assert user(tmp_path, "add", "alice", "--scram-iterations", "8192").returncode == 0
    assert user(tmp_path, "add", "bob", "--mechanism", "SCRAM-SHA-512").returncode == 0
    listed = user(tmp_path, "list")
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["USER", "MECHANISM", "ITERATIONS"],
        ["alice", "SCRAM-SHA-256", "8192"],
        ["alice", "SCRAM-SHA-512", "8192"],
        ["bob", "SCRAM-SHA-512", "4096"],
    ]
    assert user(tmp_path, "remove", "alice").returncode == 0
    assert "alice" not in user(tmp_path, "list").stdout
    again = user(tmp_path, "remove", "alice")
    assert (again.returncode, again.stderr) == (5, "stratamq: no user 'alice'\n")


def test_a_password_leaves_no_trace(tmp_path: Path) -> None:
    added = user(tmp_path, "add", "alice")
    assert PASSWORD not in added.stdout + added.stderr
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert kept
    assert not any(PASSWORD.encode() in path.read_bytes() for path in kept)


@pytest.mark.parametrize("given", ["", "\r"])
def test_an_empty_password_is_none(tmp_path: Path, given: str) -> None:
    refused = user(tmp_path, "add", "alice", given=given)
    assert (refused.returncode, refused.stderr) == (1, "stratamq: a password cannot be empty\n")


def test_a_running_node_is_left_alone(tmp_path: Path) -> None:
    lock = DataDirLock(tmp_path)
    lock.acquire()
    try:
        refused = user(tmp_path, "add", "alice")
    finally:
        lock.release()
    assert refused.returncode == 1
    assert "is in use" in refused.stderr
