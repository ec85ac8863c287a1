"""A data folder instead of servers: a node starts on it, once, and ends with whom it follows."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stratamq.model.errors import InvalidConfig
from stratamq.spark import local
from stratamq.spark.columns import SCHEMA
from stratamq.spark.options import read_options
from stratamq.spark.source import BatchReader
from tests.clients.node import running
from tests.spark.conftest import Talk

SECONDS_MAX = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a topic in it, and nobody at home."""
    data = tmp_path / "data"
    with running(data, "--topic-flush", "os") as node:
        talk = Talk(node.address)
        talk.run(lambda client: client.create_topic("orders", 1))
        talk.send_values("orders", 0, ["1", "2"])
        node.end()
    return data


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """Nodes follow a process of the test's; the result ends it. Notes go to a folder of its own."""
    followed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    monkeypatch.setattr(local, "_whom_to_follow", lambda: followed.pid)
    monkeypatch.setattr(local.tempfile, "gettempdir", lambda: str(tmp_path))

    def end() -> None:
        followed.kill()
        followed.wait()

    return end


def test_a_node_starts_once_and_ends_with_whom_it_follows(
    folder: Path, follow: Callable[[], None], tmp_path: Path
) -> None:
    try:
        address = local.servers_for(folder)
        assert local.servers_for(folder) == address
        options = read_options({"path": str(folder), "topic": "orders"}, streaming=False)
        assert str(options.client.servers[0]) == address
        reader = BatchReader(options, SCHEMA)
        rows = [row for task in reader.partitions() for row in reader.read(task)]
        assert rows[0].column("value").to_pylist() == [b"1", b"2"]
    finally:
        follow()
    assert local._guardians.pop().wait(SECONDS_MAX) == 0
    with running(folder) as again:  # the folder is free
        assert again.end(signal.SIGTERM) == 0
    assert local._running(local._note(folder)) is None


def test_a_folder_that_is_in_use_or_not_there(
    folder: Path, follow: Callable[[], None], tmp_path: Path
) -> None:
    try:
        with running(folder), pytest.raises(InvalidConfig, match=r"in use by process .*'servers'"):
            local.servers_for(folder)
        with pytest.raises(InvalidConfig, match="there is no folder"):
            local.servers_for(tmp_path / "nowhere")
    finally:
        follow()
