"""`stratamq backup` and `stratamq restore` as people use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.tool import Tool, requires
from tests.clients.node import Node, running

MADE = {
    "path": str,
    "taken_ms": int,
    "topics": int,
    "shards": int,
    "files": int,
    "bytes": int,
    "unavailable": list,
    "without_records": list,
    "store": type(None),
    "objects": int,
}
RESTORED = {
    "backup": str,
    "data_dir": str,
    "taken_ms": int,
    "node_id": int,
    "files": int,
    "bytes": int,
    "store": type(None),
    "objects": int,
}


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backups")


@pytest.fixture(scope="module")
def backed(tmp_path_factory: pytest.TempPathFactory, backups: Path) -> Iterator[Node]:
    """A node that makes backups."""
    flags = ("--topic-flush", "os", "--log-level", "error", "--backup-folder", str(backups))
    with running(tmp_path_factory.mktemp("backed"), *flags) as node:
        yield node
        assert node.end() == 0, node.logged()


@pytest.fixture(scope="module")
def on_backed(backed: Node) -> Tool:
    tool = Tool({"STRATAMQ_SERVER": backed.address})
    tool.ok("topic", "create", "orders", "--partitions", 2)
    tool.ok("produce", "orders", given="one\ntwo\n")
    return tool


def consumed(data: Path) -> list[str]:
    with running(data, "--log-level", "error") as node:
        tool = Tool({"STRATAMQ_SERVER": node.address})
        lines = tool.ok("consume", "orders").output.splitlines()
        assert node.end() == 0, node.logged()
    return sorted(lines)


def test_a_backup_and_its_restore(on_backed: Tool, backups: Path, tmp_path: Path) -> None:
    made = on_backed.json("backup", "--to", "monday")
    requires(made, MADE)
    assert (made["path"], made["topics"], made["shards"]) == (str(backups / "monday"), 1, 2)
    assert on_backed.json("backup", "--to", "monday", "--wait") == made
    said = on_backed.ok("restore", backups / "monday", "--check").output
    assert said.startswith(f"{backups / 'monday'} of ")
    assert "is whole" in said
    data = tmp_path / "restored"
    requires(on_backed.json("restore", backups / "monday", "--data-dir", data), RESTORED)
    assert consumed(data) == ["one", "two"]
    on_backed.ok("doctor", "--data-dir", data)


def test_a_whole_path_in_the_folder_is_a_name(on_backed: Tool, backups: Path) -> None:
    said = on_backed.ok("backup", "--to", backups / "tuesday").output
    assert said.startswith(f"{backups / 'tuesday'}: 1 topic, 2 shards, ")


def test_nothing_is_written_elsewhere(on_backed: Tool, backups: Path, tmp_path: Path) -> None:
    for name in (tmp_path / "x", "../x", "a/b", ".x", "", "x.partial"):
        said = on_backed.fails(1, "backup", "--to", name)
        assert f"is not a plain name: a backup is a folder in {backups} on the node's" in said


def test_nothing_is_overwritten(on_backed: Tool, backups: Path) -> None:
    (backups / "taken").mkdir()
    said = on_backed.fails(6, "backup", "--to", "taken")
    assert said == f"stratamq: {backups / 'taken'} is there already, and nothing is overwritten\n"
    (backups / "cut.partial").mkdir()
    assert "cut.partial is there already" in on_backed.fails(6, "backup", "--to", "cut")


def test_a_node_without_a_folder_for_them_makes_none(tool: Tool) -> None:
    assert tool.fails(1, "backup", "--to", "monday") == (
        "stratamq: this node makes no backups: its setting backup.folder names no folder for them\n"
    )


def test_there_is_none_to_wait_for(tool: Tool) -> None:
    assert tool.fails(5, "backup", "--to", "monday", "--wait") == (
        "stratamq: no backup 'monday' was begun since the node was started\n"
    )


def test_a_stopped_node(tmp_path: Path) -> None:
    data, backup, restored = (tmp_path / name for name in ("data", "monday", "restored"))
    tool = Tool()
    with running(data, "--log-level", "error") as node:
        there = ("--server", node.address)
        tool.ok("topic", "create", "orders", *there)
        tool.ok("produce", "orders", *there, given="one\ntwo\n")
        said = tool.fails(1, "backup", "--data-dir", data, "--to", backup)
        assert said.startswith(f"stratamq: {data} is in use by process {node.process.pid};")
        assert node.end() == 0
    requires(tool.json("backup", "--data-dir", data, "--to", backup), MADE)
    assert "nothing is overwritten" in tool.fails(6, "backup", "--data-dir", data, "--to", backup)
    inside = tool.fails(1, "backup", "--data-dir", data, "--to", data / "x")
    assert inside == f"stratamq: {data / 'x'} is inside the data folder\n"
    tool.ok("restore", backup, "--data-dir", restored)
    assert consumed(restored) == ["one", "two"]
    assert "is not empty" in tool.fails(1, "restore", backup, "--data-dir", restored)
    assert "there is no folder" in tool.fails(1, "restore", tmp_path / "none", "--data-dir", data)
    missing = tool.fails(5, "backup", "--data-dir", tmp_path / "none", "--to", tmp_path / "x")
    assert missing == f"stratamq: {tmp_path / 'none'} is not the data folder of a node\n"
