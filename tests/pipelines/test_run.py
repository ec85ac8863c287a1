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
from stratamq.pipelines.project import init
from stratamq.wire.kafka.records import decode_batch, iter_batches
from tests.clients.node import ROOT, Node, running
from tests.peers.spark import QUICK_JAVA, connect_server
from tests.spark.conftest import Talk
from tests.spark_union.world import CONFIGS, FLAGS

pytestmark = [
    pytest.mark.needs("java"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]

MEMORY = (
    *("--conf", "spark.sql.catalogImplementation=in-memory"),
    *("--conf", f"spark.driver.extraJavaOptions={QUICK_JAVA}"),
)
"""A catalog on disk takes half a minute to make; a single run needs none."""


ONCE = ("--conf", "spark.sql.pipelines.maxFlowRetryAttempts=0")
"""What fails is not tried again."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("node"), "--topic-flush", "os") as node:
        yield node


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server for runs that need no driver of their own: one takes half a minute to start."""
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture
def project(tmp_path: Path, node: Node) -> Path:
    init("shop", tmp_path, node.address)
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


def test_orders_become_totals(project: Path, node: Node) -> None:
    """With a driver of its own."""
    subprocess.run([sys.executable, project / "sample.py"], check=True, capture_output=True)
    done = stratamq("pipeline", "run", "--master", "local[2]", *MEMORY, folder=project)
    assert done.returncode == 0, done.stderr
    assert "cleaned_orders: running, 1,000 rows, lag 0" in done.stdout
    assert "order_totals" in done.stdout
    totals = [json.loads(record.value or b"") for record in read_all(node, "order-totals")]
    assert len({one["minute"] for one in totals}) >= 4
    assert 0 < sum(one["orders"] for one in totals) <= 1000


def test_a_bad_record_is_named(project: Path, node: Node, remote: str) -> None:
    talk = Talk(node.address)
    talk.run(lambda client: client.create_topic("strict", 1))
    talk.send_values("strict", 0, ['{"id": 1}'] * 1005 + ["no number"] + ['{"id": 2}'] * 20)
    only(project, STRICT)
    failed = stratamq("pipeline", "run", "--remote", remote, *ONCE, folder=project)
    assert failed.returncode == 1
    assert "step strict failed at offset 1005 of strict-0" in failed.stderr
    assert "Traceback" not in failed.stderr


def only(project: Path, step: str) -> None:
    """Instead of the steps it came with."""
    steps = project / "transformations"
    for path in steps.iterdir():
        path.unlink()
    (steps / "step.py").write_text(step)


STRICT = """
from pyspark import pipelines as dp
from pyspark.sql import functions as f

@dp.table
def strict():
    orders = spark.readStream.format("stratamq").options(
        servers=spark.conf.get("spark.stratamq.servers"), topic="strict",
        startingOffsets="earliest").load()
    return orders.select(f.from_json(f.col("value").cast("string"), "id long",
                                     {"mode": "FAILFAST"}).alias("order"))
"""


READING = """
from pyspark import pipelines as dp

@dp.table
def read():
    own = {{"servers": spark.conf.get("spark.stratamq.servers"), "topic": "strict"}}
    return spark.readStream.format("stratamq").options(**own | {options}).load()
"""


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": "gone"}, "there is no topic 'gone'"),
        ({"startingOfsets": "earliest"}, "a stream has no option 'startingofsets'; did you mean"),
        ({"servers": "127.0.0.1:1", "retry.ms": "100"}, "127.0.0.1:1 cannot be reached"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    project: Path, remote: str, options: dict[str, str], sentence: str
) -> None:
    only(project, READING.format(options=options))
    failed = stratamq("pipeline", "run", "--remote", remote, *ONCE, folder=project)
    assert failed.returncode == 1
    assert sentence in failed.stderr
    assert failed.stderr.count("\n") == 1


JOB = """
import sys

from pyspark.sql import SparkSession

from stratamq.spark import register, topic

spark = register(SparkSession.builder.getOrCreate())
print("rows:", topic(spark, sys.argv[1]).count())
raise SystemExit(7)
"""


def test_a_plain_job_finds_nodes_and_packages(tmp_path: Path, node: Node) -> None:
    talk = Talk(node.address)
    talk.run(lambda client: client.create_topic("for-a-job", 1))
    talk.send_values("for-a-job", 0, ["a", "b", "c"])
    (tmp_path / "job.py").write_text(JOB)
    words = ("--servers", node.address, "--master", "local[2]", *MEMORY, "job.py", "for-a-job")
    done = stratamq("spark", "submit", *words, folder=tmp_path)
    assert "rows: 3" in done.stdout, done.stderr
    assert done.returncode == 7, "the job's own"


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
        only(project, UNION)
        words = ("--servers", tiered.address, "--master", "local[2]", *MEMORY)
        done = stratamq("pipeline", "run", *words, folder=project)
    assert done.returncode == 0, done.stderr
    assert re.search(r"by_rest +completed +7", done.stdout)
