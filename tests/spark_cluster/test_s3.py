"""History in S3, read by Spark's own reader: what the node knows of its store, Spark is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stratamq.spark.union.snapshot import reached
from stratamq.tiering.stores.options import StoreOptions
from stratamq.tiering.stores.s3.client import make_client
from stratamq.wire.kafka.protocol.messages.lake import DescribedLake
from tests.clients.node import ROOT, Node, running
from tests.peers import s3
from tests.peers.spark import standalone
from tests.spark_cluster.conftest import RECORDS, SMALL, fill, sums
from tests.spark_union.world import FLAGS

HISTORY = Path(__file__).parent / "history.py"
KEY_ID, SECRET = "cluster-test-key-id", "cluster-test-secret"
IVY = ROOT / "build" / "ivy"
"""What was fetched once is kept."""


def test_what_a_node_says_of_its_store_is_what_spark_needs() -> None:
    told = reached(
        DescribedLake(
            name="t",
            store_url="s3://bucket/some",
            s3_endpoint="http://store:9000",
            s3_path_style=True,
        )
    )
    assert told["fs.s3a.endpoint"] == "http://store:9000"
    assert told["fs.s3a.endpoint.region"] == "us-east-1"
    assert told["fs.s3a.path.style.access"] == "true"
    aws = reached(DescribedLake(name="t", store_url="s3://bucket", s3_region="eu-central-1"))
    assert list(aws) == ["fs.s3a.endpoint.region", "fs.s3a.aws.credentials.provider"]
    assert reached(DescribedLake(name="t", store_url="file:///x", s3_endpoint="http://h")) == {}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Its past is in a bucket of moto's server."""
    with s3.running() as address, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        options = StoreOptions(url="s3://history/some", s3_endpoint=address, s3_path_style=True)
        client = make_client(options)
        client.create_bucket(Bucket="history")
        client.close()
        store = ("--store-url", options.url, "--store-s3-endpoint", address)
        data = tmp_path_factory.mktemp("node")
        with running(data, *FLAGS, *store, "--store-s3-path-style", "true") as node:
            fill(node)
            yield node


def submitted(
    node: Node, folder: Path, master: str, credentials: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    events = folder / "events"
    events.mkdir()
    words = ("--s3", "--master", master, "--servers", node.address, *SMALL)
    logs = {"enabled": "true", "dir": str(events), "compress": "false"}
    logged = [
        w for name, value in logs.items() for w in ("--conf", f"spark.eventLog.{name}={value}")
    ]
    own = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "SPARK_LOCAL_IP": "127.0.0.1"}
    others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run(
        [
            *(sys.executable, "-m", "stratamq.cli", "spark", "submit", *words, *logged),
            *("--conf", f"spark.jars.ivy={IVY}", str(HISTORY), *arguments),
        ],
        cwd=folder,
        env={**others, **own, "AWS_EC2_METADATA_DISABLED": "true", **credentials},
        capture_output=True,
        text=True,
        timeout=500,
    )


def check(done: subprocess.CompletedProcess[str], folder: Path) -> dict[str, Any]:
    """Everything was found, and no secret is anywhere."""
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told["before"] == told["after"] == sums(range(RECORDS))
    assert "s3a://history" in told["plan"]
    events = "".join(
        path.read_text(errors="replace") for path in folder.rglob("events/**/*") if path.is_file()
    )
    assert "SparkListenerJobEnd" in events
    for place in (told["plan"], done.stderr, events):
        assert SECRET not in place
        assert KEY_ID not in place
    return told


@pytest.mark.needs("java")
@pytest.mark.timeout(600)
def test_credentials_come_from_the_environment(node: Node, tmp_path: Path) -> None:
    given = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
    told = check(submitted(node, tmp_path, "local[2]", given, "compact"), tmp_path)
    assert told["made"] > 0, "tasks of jobs found the store, too"


@pytest.mark.long
@pytest.mark.needs("java")
@pytest.mark.timeout(600)
def test_credentials_come_from_a_file_of_aws(node: Node, tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text(f"[history]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n")
    given = {"AWS_SHARED_CREDENTIALS_FILE": str(path), "AWS_PROFILE": "history"}
    check(submitted(node, tmp_path, "local[2]", given), tmp_path)


@pytest.mark.long
@pytest.mark.needs("java")
@pytest.mark.timeout(600)
def test_executors_get_the_drivers_credentials(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers know of none."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    given = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
    with standalone(tmp_path, workers=2) as cluster:
        check(submitted(node, tmp_path, cluster.master, given), tmp_path)
