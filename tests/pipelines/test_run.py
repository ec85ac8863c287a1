"""A project as `init` writes it, run by the command against a real node and real Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratamq.client import Client, TopicPartition
from stratamq.model.record import Record
from stratamq.wire.kafka.records import decode_batch, iter_batches
from tests.clients.node import ROOT, Node, running
from tests.spark.conftest import Talk
from tests.spark_union.world import CONFIGS, FLAGS

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]

MEMORY = ("--conf", "spark.sql.catalogImplementation=in-memory")
"""A catalog on disk takes half a minute to make; a single run needs none."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("node"), "--topic-flush", "os") as node:
        yield node


@pytest.fixture
def project(tmp_path: Path, node: Node) -> Path:
    told = stratamq("pipeline", "init", "shop", "--servers", node.address, folder=tmp_path)
    assert told.returncode == 0, told.stderr
    return tmp_path / "shop"


def stratamq(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stratamq.cli", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=500,
    )


def read_all(node: Node, topic: str) -> list[Record]:
    async def fetched(client: Client) -> list[Record]:
        got = await client.fetch(TopicPartition(topic, 0), 0, committed=True)
        batches = [one for one in iter_batches(got.data) if not one[0].is_control]
        return [record for one in batches for record in decode_batch(*one)]

    found: list[Record] = Talk(node.address).run(fetched)
    return found


def test_orders_become_totals_and_a_bad_one_is_named(project: Path, node: Node) -> None:
    subprocess.run([sys.executable, project / "sample.py"], check=True, capture_output=True)
    done = stratamq("pipeline", "run", "--master", "local[2]", *MEMORY, folder=project)
    assert done.returncode == 0, done.stderr
    assert "cleaned_orders: running, 1,000 rows, lag 0" in done.stdout
    assert "order_totals" in done.stdout
    totals = [json.loads(record.value or b"") for record in read_all(node, "order-totals")]
    assert len({one["minute"] for one in totals}) >= 4
    assert 0 < sum(one["orders"] for one in totals) <= 1000

    talk = Talk(node.address)
    talk.send_values("orders", 0, ['{"id": 1}'] * 5 + ["no number"] + ['{"id": 2}'] * 20)
    steps = project / "transformations"
    for path in steps.iterdir():
        path.unlink()
    (steps / "strict.py").write_text(STRICT)
    failed = stratamq("pipeline", "run", "--master", "local[2]", *MEMORY, folder=project)
    assert failed.returncode == 1
    assert "step strict failed at offset 1005 of orders-0" in failed.stderr
    assert "Traceback" not in failed.stderr


STRICT = """
from pyspark import pipelines as dp
from pyspark.sql import functions as f

@dp.table
def strict():
    orders = spark.readStream.format("stratamq").options(
        servers=spark.conf.get("spark.stratamq.servers"), topic="orders",
        startingOffsets="earliest").load()
    return orders.select(f.from_json(f.col("value").cast("string"), "id long",
                                     {"mode": "FAILFAST"}).alias("order"))
"""


@pytest.mark.long
def test_a_node_that_is_down_is_one_sentence(project: Path) -> None:
    """It is tried again for half a minute, and by Spark twice more."""
    words = ("--servers", "127.0.0.1:1", "--master", "local[2]", *MEMORY)
    failed = stratamq("pipeline", "run", *words, folder=project)
    assert failed.returncode == 1
    assert "127.0.0.1:1" in failed.stderr
    assert failed.stderr.count("\n") <= 2


JOB = """
import sys

from pyspark.sql import SparkSession

from stratamq.spark import register, topic

spark = register(SparkSession.builder.getOrCreate())
print("rows:", topic(spark, sys.argv[1]).count())
"""


def test_a_plain_job_finds_nodes_and_packages(tmp_path: Path, node: Node) -> None:
    talk = Talk(node.address)
    talk.run(lambda client: client.create_topic("for-a-job", 1))
    talk.send_values("for-a-job", 0, ["a", "b", "c"])
    (tmp_path / "job.py").write_text(JOB)
    words = ("--servers", node.address, "--master", "local[2]", "job.py", "for-a-job")
    done = stratamq("spark", "submit", *words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rows: 3" in done.stdout
    (tmp_path / "job.py").write_text("raise SystemExit(7)")
    assert stratamq("spark", "submit", "job.py", folder=tmp_path).returncode == 7


UNION = """
from pyspark import pipelines as dp
from pyspark.sql import functions as f

from stratamq.spark import topic

@dp.materialized_view
def by_rest():
    return topic(spark, "whole").groupBy((f.col("id") % 7).alias("rest")).count()
"""


@pytest.mark.long
def test_a_step_reads_a_whole_topic_over_all_tiers(
    tmp_path_factory: pytest.TempPathFactory, project: Path
) -> None:
    with running(tmp_path_factory.mktemp("tiered"), *FLAGS) as tiered:
        talk = Talk(tiered.address)
        talk.run(lambda client: client.create_topic("whole", 1, configs=CONFIGS))
        talk.send_values("whole", 0, [json.dumps({"id": number}) for number in range(1000)])
        talk.run(lambda client: client.flush_lake("whole"))
        for path in (project / "transformations").iterdir():
            path.unlink()
        (project / "transformations" / "union.py").write_text(UNION)
        words = ("--servers", tiered.address, "--master", "local[2]", *MEMORY)
        done = stratamq("pipeline", "run", *words, folder=project)
    assert done.returncode == 0, done.stderr
    assert re.search(r"by_rest +completed +7", done.stdout)
