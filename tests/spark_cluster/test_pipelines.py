"""`stratamq pipeline run` with tasks on a cluster, and with all of it on a Spark Connect server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stratamq.client import Client, TopicPartition
from stratamq.pipelines.project import init
from stratamq.wire.kafka.records import decode_batch, iter_batches
from tests.clients.node import Node
from tests.peers.spark import Cluster, connect_server
from tests.spark.conftest import Talk
from tests.spark_cluster.conftest import SMALL, Run

pytestmark = pytest.mark.long

COUNT = 1000
"""As many orders as the project's sample sends."""


@pytest.fixture
def project(tmp_path: Path, node: Node) -> Path:
    init("shop", tmp_path, node.address)
    folder = tmp_path / "shop"
    subprocess.run([sys.executable, folder / "sample.py"], check=True, capture_output=True)
    return folder


def totals(node: Node) -> list[dict[str, object]]:
    async def fetched(client: Client) -> list[dict[str, object]]:
        got = await client.fetch(TopicPartition("order-totals", 0), 0, committed=True)
        batches = [one for one in iter_batches(got.data) if not one[0].is_control]
        return [json.loads(record.value or b"") for one in batches for record in decode_batch(*one)]

    found: list[dict[str, object]] = Talk(node.address).run(fetched)
    return found


def check(told: subprocess.CompletedProcess[str], node: Node) -> None:
    assert told.returncode == 0, told.stderr
    assert re.search(r"cleaned_orders +completed +[\d,]+ +0", told.stdout), told.stdout
    assert len({one["minute"] for one in totals(node)}) >= 4


def test_tasks_run_on_a_cluster(cluster: Cluster, node: Node, project: Path, stratamq: Run) -> None:
    before = cluster.executors()
    words = ("--conf", "spark.sql.catalogImplementation=in-memory", *SMALL)
    told = stratamq("pipeline", "run", "--master", cluster.master, *words, folder=project)
    check(told, node)
    assert cluster.executors() == before + 2


def test_everything_runs_on_a_server(
    cluster: Cluster, node: Node, project: Path, stratamq: Run, tmp_path: Path
) -> None:
    """A server whose tasks run on the cluster."""
    before = cluster.executors()
    with connect_server(tmp_path, cluster.master, *SMALL) as remote:
        told = stratamq("pipeline", "run", "--remote", remote, folder=project)
        check(told, node)
        again = stratamq("pipeline", "run", "--remote", remote, folder=project)
    assert again.returncode == 0, again.stderr
    assert cluster.executors() == before + 2
    assert not (project / "warehouse").exists(), "tables are the server's"
