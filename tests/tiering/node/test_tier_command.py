"""`stratamq tier` on a real server: history moves, and loses what was deleted, at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.cli.tool import Tool, requires
from tests.clients.node import Node, running
from tests.duck import asked
from tests.tiering.node.users import ORDERS, RECORDS, SEGMENT_BYTES, command, create, lake, produce
from tests.waiting import wait_until

HOUR_MS = "3600000"
FLAGS = (
    *("--tier-interval-ms", HOUR_MS, "--tier-orphan-grace-ms", "0"),
    *("--topic-flush", "os", "--store-retry-ms-max", "100", "--log-level", "warning"),
)
RUN = ("moved_segments", "moved_bytes", "freed_bytes", "rewritten_files")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running(tmp_path, *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


@pytest.fixture
def tool(node: Node) -> Tool:
    """After the mover's only round of this hour: from now on it does what it is asked for."""
    create(node, "orders", ORDERS)
    tool = Tool({"STRATAMQ_SERVER": node.address})
    assert tool.json("tier", "run", "orders")["topics"] == [
        {"topic": "orders", **dict.fromkeys(RUN, 0)}
    ]
    produce(node, "orders", range(RECORDS))
    return tool


def status(tool: Tool) -> dict[str, Any]:
    (orders,) = tool.json("tier", "status", "orders")["topics"]
    return dict(orders)


def rows(node: Node) -> int:
    return sum(file.rows for file in lake(node, "orders").partitions[0].files if file.final)


def test_history_moves_when_it_is_asked_for(node: Node, tool: Tool) -> None:
    before = status(tool)
    assert before["stored_bytes"] == 0
    assert before["local_bytes"] > SEGMENT_BYTES
    (done,) = tool.json("tier", "run", "orders")["topics"]
    requires(done, {"topic": str, **dict.fromkeys(RUN, int)})
    assert done["moved_segments"] > 2
    assert (
        done["freed_bytes"]
        == done["moved_bytes"]
        == before["local_bytes"] - status(tool)["local_bytes"]
    )
    after = tool.json("tier", "status")
    assert after["store"].startswith("file:")
    assert after["trouble"] is None
    assert status(tool)["local_bytes"] < SEGMENT_BYTES
    assert status(tool)["stored_bytes"] > 0
    assert rows(node) > RECORDS - SEGMENT_BYTES
    text = tool.ok("tier", "status", "orders").output
    assert text.splitlines()[0].split()[:3] == ["TOPIC", "LOCAL", "STORED"]
    assert "0 segments moved" in tool.ok("tier", "run", "orders").output, "nothing is due any more"


def test_who_waits_does_not_wait_for_an_idle_machine(node: Node, tool: Tool) -> None:
    """A moved segment needs a converter, its table a writer: both run as important as the node."""
    tool.ok("tier", "run", "orders")
    tool.ok("lake", "flush", "orders")
    pids = children(node)
    assert len(pids) >= 2
    own = os.getpriority(os.PRIO_PROCESS, node.process.pid)
    assert {os.sched_getscheduler(pid) for pid in pids} == {os.SCHED_OTHER}
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids} == {own}


def children(node: Node) -> list[int]:
    lists = Path(f"/proc/{node.process.pid}/task").glob("*/children")
    return [int(pid) for each in lists for pid in each.read_text().split()]


def table_writer(node: Node) -> int:
    (pid,) = (
        pid for pid in children(node) if "tables.worker" in Path(f"/proc/{pid}/cmdline").read_text()
    )
    return pid


def in_catalog(node: Node) -> int:
    """The rows that a reader of the Iceberg table finds."""
    address = f"sqlite:///{node.data}/lake/catalog.sqlite"
    with closing(SqlCatalog("stratamq", uri=address)) as catalog:
        return int(catalog.load_table("stratamq.orders").scan().to_arrow().num_rows)


def test_what_the_catalog_does_not_have_yet_is_pending(node: Node, tool: Tool) -> None:
    """Files are stored, and the table is about to be written: status and catalog say the same."""
    tool.ok("lake", "flush", "orders")

    def figures() -> tuple[int, int]:
        (found,) = tool.json("lake", "status", "orders")["topics"]
        return found["rows"], found["pending_rows"]

    assert figures() == (in_catalog(node), 0) == (RECORDS, 0)
    writer = table_writer(node)
    os.kill(writer, signal.SIGSTOP)
    produce(node, "orders", range(RECORDS, RECORDS + 100))
    with ThreadPoolExecutor(1) as pool:
        flushed = pool.submit(command, "lake", "flush", "orders", "--servers", node.address)
        try:
            wait_until(lambda: figures() == (RECORDS, 100))
            assert in_catalog(node) == RECORDS
            assert "pending" in tool.ok("lake", "status").output.lower()
        finally:
            os.kill(writer, signal.SIGCONT)
        flushed.result()
    assert figures() == (in_catalog(node), 0) == (RECORDS + 100, 0)


def test_deleted_records_leave_history_when_it_is_asked_for(node: Node, tool: Tool) -> None:
    tool.ok("tier", "run", "orders")
    stored = rows(node)
    deleted = tool.json("delete", "orders", "--key", "k3", "--yes")["deleted"]
    assert deleted == RECORDS // 10
    assert rows(node) == stored, "files are not rewritten by a deletion"
    outdated = status(tool)["outdated_files"]
    assert outdated > 2
    (done,) = tool.json("tier", "run", "orders")["topics"]
    assert done["rewritten_files"] == outdated
    assert status(tool)["outdated_files"] == 0
    assert rows(node) == stored - len(range(3, stored, 10))
    paths = [file.parquet_key for file in lake(node, "orders").partitions[0].files]
    keys = asked_keys(node.data / "cold", paths)
    assert b"k3" not in keys
    assert b"k4" in keys


def asked_keys(folder: Path, paths: list[Any]) -> set[bytes]:
    names = [str(folder / str(path)) for path in paths]
    return {bytes(key) for (key,) in asked("select distinct key from read_parquet(?)", names)}


def test_a_store_that_is_away_is_one_sentence(node: Node, tool: Tool) -> None:
    (node.data / "cold").rename(node.data / "away")
    said = tool.fails(1, "tier", "run", "orders", "--property", "retry.ms=1")
    assert "history of 'orders'" in said
    assert tool.json("tier", "status")["trouble"]
    assert "last error: " in tool.ok("tier", "status").output
    checks = tool.run("doctor", "--server", node.address, "--json").json["checks"]
    assert ("object store", "fail") in [(one["check"], one["result"]) for one in checks]
    (node.data / "away").rename(node.data / "cold")
    assert tool.json("tier", "run", "orders")["topics"][0]["moved_segments"] > 2


def test_slips(tool: Tool) -> None:
    assert "'none'" in tool.fails(5, "tier", "status", "none")
    assert "'none'" in tool.fails(5, "tier", "run", "none")
