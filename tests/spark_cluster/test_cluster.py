"""One job on a real cluster, submitted by the command: all works there as it does locally."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.node import Node
from tests.peers.spark import Cluster
from tests.spark_cluster.conftest import RECORDS, SMALL, Run, sums

APPLICATION = Path(__file__).parent / "application.py"
ALL = sums(range(RECORDS))


@pytest.fixture(scope="module")
def told(
    cluster: Cluster, node: Node, stratamq: Run, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What came out, by trial."""
    folder = tmp_path_factory.mktemp("application")
    words = ("--master", cluster.master, "--servers", node.address, *SMALL)
    done = stratamq("spark", "submit", *words, str(APPLICATION), str(folder), folder=folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_both_workers_have_tasks(told: dict[str, Any]) -> None:
    assert told["executors"] == 2


def test_a_topic_is_a_table(told: dict[str, Any]) -> None:
    assert told["table"] == ALL


def test_a_whole_topic_is_a_table(told: dict[str, Any]) -> None:
    assert told["union"] == ALL


def test_rows_are_written(told: dict[str, Any]) -> None:
    assert told["written"] == sums(range(100))


def test_a_stream_is_copied_once(told: dict[str, Any]) -> None:
    assert told["stream"] == ALL


def test_a_job_makes_files(told: dict[str, Any]) -> None:
    assert told["job"]["replaced"] > told["job"]["made"] > 0
    assert told["job"]["rows"] == ALL
