"""Which folder a node takes for its data, whose it is, and who may read it."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

import stratamq
from stratamq.model.errors import InvalidConfig, OffsetOutOfRange, StorageError
from tests.clients.node import running


def bits(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_of_apache_kafka_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("cluster.id=x\n")
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(StorageError, match=r"Apache Kafka's.*--data-dir"):
        stratamq.open(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["meta.properties", "orders-0"]


def test_any_other_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StorageError, match=r"not empty.*'thesis.tex'"):
        stratamq.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["lost+found", ".DS_Store"])
def test_what_systems_put_into_a_folder_does_no_harm(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    stratamq.open(tmp_path).close()
    (tmp_path / "notes.txt").touch()  # of a folder that is ours by now
    stratamq.open(tmp_path).close()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(StorageError, match="is a file"):
        stratamq.open(tmp_path / "data")


def test_a_folder_belongs_to_one_node(tmp_path: Path) -> None:
    with stratamq.open(tmp_path) as node:
        node.create_topic("orders")
    with pytest.raises(StorageError, match=r"belongs to node 1.*--node-id 1"):
        stratamq.open(tmp_path, node_id=2)
    with stratamq.open(tmp_path) as node:
        assert [topic.name for topic in node.topics()] == ["orders"]


def test_a_new_data_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    stratamq.open(tmp_path / "new").close()
    assert bits(tmp_path / "new") == 0o700


def test_what_a_server_stores_is_for_its_owner_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # made by somebody else, who may have reasons
    before = os.umask(0o022)
    try:
        with running(tmp_path, "--sasl-enabled-mechanisms", "SCRAM-SHA-256") as node:
            assert node.end() == 0
        with stratamq.open(tmp_path) as embedded:
            for storage in ("segment", "rocksdb", "memory"):
                embedded.create_topic(storage, storage=storage).produce("private")
    finally:
        os.umask(before)
    assert bits(tmp_path) == 0o755
    found = {path.name: bits(path) for path in tmp_path.iterdir()}
    assert found["sasl.secret"] == 0o600
    assert found["meta"] == 0o700
    assert not [name for name, mode in found.items() if mode & 0o077]


def test_a_path_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidConfig, match="a path, not None"):
        stratamq.open(None)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_number_of_partitions_is_a_number(tmp_path: Path) -> None:
    with (
        stratamq.open(tmp_path) as node,
        pytest.raises(InvalidConfig, match="partitions: '3' is no whole number"),
    ):
        node.create_topic("orders", partitions="3")  # type: ignore[arg-type]


def test_errors_name_topics_and_partitions_and_no_ids(tmp_path: Path) -> None:
    with stratamq.open(tmp_path) as node:
        orders = node.create_topic("orders", partitions=2)
        orders.produce("a", partition=1)
        with pytest.raises(OffsetOutOfRange, match=r"^orders-1: offset 7 is outside 0\.\.1$"):
            orders.read(7, partition=1)
        with pytest.raises(OffsetOutOfRange, match=r"^orders-1: offset 9 is outside 0\.\.1$"):
            orders.trim(9, partition=1)


def test_a_node_is_not_used_by_a_forked_child(tmp_path: Path) -> None:
    with stratamq.open(tmp_path) as node:
        orders = node.create_topic("orders")
        child = os.fork()
        if not child:
            try:
                orders.produce("lost")
            except stratamq.errors.Closed as error:
                os._exit(0 if "another process" in str(error) else 1)
            finally:
                os._exit(2)
        signal.alarm(60)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        signal.alarm(0)
        orders.produce("kept")
