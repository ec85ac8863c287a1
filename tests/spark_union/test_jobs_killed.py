"""Jobs whose driver is killed at random, again and again: nothing is lost, nothing is twice, and
the next one does what is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.clients.node import ROOT
from tests.spark_union.deleting import DeletingNode, deleting_node
from tests.spark_union.moved import SETTINGS, SOON_S, MovedTopic, moved
from tests.waiting import let_run_here, wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
]
KILLS = 3
SECONDS_MAX = 200
JOBS = {"apply_deletes": "both", "compact_files": "parquet", "convert_backlog": "log"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeletingNode]:
    with deleting_node(tmp_path_factory.mktemp("killed"), **SETTINGS) as node:
        yield node


class Job:
    """`tests.spark_union.jobbing` in a session of its own, so that all of it can be killed."""

    def __init__(self, *given: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark_union.jobbing", *given],
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            },
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "running\n"

    def kill(self, after_s: float) -> None:
        """The driver with its JVM. Python workers follow when they find themselves alone, and may
        finish what they are at: zombies, for a moment."""
        let_run_here(after_s)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=SECONDS_MAX)

    def end(self) -> None:
        self.process.communicate(timeout=SECONDS_MAX)
        assert self.process.returncode == 0


@pytest.mark.parametrize("job", JOBS)
def test_a_driver_is_killed_at_random(spark: SparkSession, node: DeletingNode, job: str) -> None:
    with moved(spark, node, f"killed-{job}", JOBS[job]) as topic:
        gone = [topic.within(file)[0] for file in topic.told().files]
        values = {topic.rows[offset] for offset in gone}
        topic.delete(*gone)
        for _ in range(KILLS):
            Job(job, node.address, topic.name).kill(random.uniform(0.5, 6))
            topic.check()
        Job(job, node.address, topic.name).end()
        topic.check()
        spans = [(file.base_offset, file.end_offset) for file in topic.told().files]
        assert spans
        assert [one for one in pairwise(spans) if one[0][1] != one[1][0]] == []
        wait_until(lambda: not values & topic.stored(), "deleted without a name", SOON_S)
        wait_until(lambda: len(objects(topic)) == named(topic), "all are named", SOON_S)
        topic.check()


def objects(topic: MovedTopic) -> list[Path]:
    url = topic.client.call(topic.client.asyncio.describe_lake(topic.name)).store_url
    found = Path(url.removeprefix("file://")).glob(f"{topic.name}.*/**/*")
    return [path for path in found if path.suffix in (".parquet", ".log")]


def named(topic: MovedTopic) -> int:
    files = topic.told().files
    return sum(bool(file.parquet_key) + bool(file.log_key) for file in files)


def test_a_copy_that_is_killed_changes_nothing(
    spark: SparkSession, node: DeletingNode, tmp_path: Path
) -> None:
    target = tmp_path / "table"
    with moved(spark, node, "killed-copy", "parquet") as topic:
        given = ("copy", node.address, topic.name, str(target))
        Job(*given).end()
        for _ in range(KILLS):
            Job(*given).kill(random.uniform(0.5, 4))
            assert spark.read.parquet(str(target)).count() == len(topic.rows)
        Job(*given).end()
        assert spark.read.parquet(str(target)).count() == len(topic.rows)
