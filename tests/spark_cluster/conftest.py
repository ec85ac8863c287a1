"""A master and two workers, a node with history, and the command as users call it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stratamq.model.errors import TimedOut
from tests.clients.node import ROOT, Node, running
from tests.peers.spark import QUICK_JAVA, Cluster, environment, standalone
from tests.spark.conftest import Talk
from tests.spark_union.world import CONFIGS, FLAGS

HERE = Path(__file__).parent
PARTITIONS = 2
RECORDS = 1000
FLUSHES_MAX = 8
SMALL = (
    *("--conf", "spark.executor.memory=500m"),
    *("--conf", "spark.driver.memory=600m"),
    *("--conf", "spark.driver.host=127.0.0.1"),
    *("--conf", f"spark.driver.extraJavaOptions={QUICK_JAVA}"),
    *("--conf", f"spark.executor.extraJavaOptions={QUICK_JAVA}"),
    *("--conf", "spark.ui.enabled=false"),
    *("--conf", "spark.sql.shuffle.partitions=2"),
)
"""Settings for the two workers that there are."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs("java"))
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster"), workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """With the topics of `application`."""
    with running(tmp_path_factory.mktemp("node"), *FLAGS) as node:
        fill(node)
        yield node


def fill(node: Node) -> None:
    """`whole`: half of it moved away or at least in early files, half only in the log."""
    talk = Talk(node.address)
    talk.run(lambda client: client.create_topic("whole", PARTITIONS, configs=QUIET))
    for name in ("copy", "rows"):
        talk.run(lambda client, name=name: client.create_topic(name, PARTITIONS))
    values = [json.dumps({"id": number, "pad": "x" * 40}) for number in range(RECORDS)]
    for half in (values[: RECORDS // 2], values[RECORDS // 2 :]):
        for partition in range(PARTITIONS):
            talk.send_values("whole", partition, half[partition::PARTITIONS])
        if half[0] == values[0]:
            flush(talk, "whole")


def flush(talk: Talk, topic: str) -> None:
    """A flush that takes longer than a client waits goes on, and is asked for again."""
    for _ in range(FLUSHES_MAX):
        with suppress(TimedOut):
            talk.run(lambda client: client.flush_lake(topic))
            return
    raise TimeoutError(f"{topic} is not flushed")


QUIET = {**CONFIGS, "lake.flush.interval.ms": "600000"}
"""What is written to the log after the first half stays there."""


@pytest.fixture(scope="session")
def stratamq() -> Run:
    """The command, as a process of its own."""

    def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stratamq.cli", *words],
            cwd=folder,
            env={**environment(), "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=900,
        )

    return run


def sums(numbers: range) -> list[int]:
    """As `application.counted` has them."""
    return [len(numbers), len(numbers), sum(numbers)]
