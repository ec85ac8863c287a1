"""A topic's Iceberg table, read by Spark through Iceberg's own runtime, from the node's catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.node import running
from tests.peers.spark.iceberg import ask
from tests.spark.conftest import Talk
from tests.spark_cluster.conftest import RECORDS, fill, flush

pytestmark = [pytest.mark.long, pytest.mark.needs("java", "mvn"), pytest.mark.timeout(1200)]

TABLE = "stratamq.stratamq.whole"
ALL = "count(*) n, count(distinct data.id) ids, sum(data.id) total"


def test_rows_filters_and_snapshots(tmp_path: Path) -> None:
    with running(tmp_path, "--topic-flush", "os", "--tier-interval-ms", "30") as node:
        fill(node)
        flush(Talk(node.address), "whole")
        whole, some, hidden, snapshots = ask(
            tmp_path / "lake" / "catalog.sqlite",
            tmp_path / "cold",
            f"select {ALL} from {TABLE} where not aborted",
            f"select {ALL} from {TABLE} where data.id >= {RECORDS - 100} and partition = 1",
            f"select count(distinct _file) n from {TABLE} where partition = 0",
            f"select count(*) n from {TABLE}.snapshots",
        )
    assert whole == {"n": RECORDS, "ids": RECORDS, "total": sum(range(RECORDS))}
    late = range(RECORDS - 99, RECORDS, 2)  # odd numbers are in partition 1
    assert some == {"n": 50, "ids": 50, "total": sum(late)}
    assert hidden["n"] > 1
    assert snapshots["n"] > 1
