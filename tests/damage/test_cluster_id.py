"""The file that names the cluster, lost and damaged."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stratamq.model.config import load
from stratamq.node.core import NodeCore
from stratamq.node.identity import cluster_id


def test_it_stays_the_same(tmp_path: Path) -> None:
    made = cluster_id(tmp_path)
    assert cluster_id(tmp_path) == made


@pytest.mark.parametrize("content", [b"", b"\xff\x00garbage", b"too short\n"])
def test_what_is_no_id_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cluster.id").write_bytes(content)
    made = cluster_id(tmp_path)
    assert cluster_id(tmp_path) == made
    assert (tmp_path / "cluster.id.damaged").read_bytes() == content


def test_one_that_is_lost_beside_stored_records_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster_id(tmp_path)
    (tmp_path / "cluster.id").unlink()
    with caplog.at_level(logging.ERROR, "stratamq.damage"):
        cluster_id(tmp_path)
        assert not caplog.messages, "an empty folder has lost nothing"
        (tmp_path / "cluster.id").unlink()
        (tmp_path / "segments" / "0123456789abcdef0123456789abcdef_0").mkdir(parents=True)
        cluster_id(tmp_path)
    assert "cluster.id is missing" in caplog.text


async def test_a_node_that_serves_no_clients_has_one_too(tmp_path: Path) -> None:
    """Or its folder would look damaged once it does."""
    core = NodeCore(load(flags={"data.dir": str(tmp_path)}))
    await core.start()
    await core.stop()
    assert (tmp_path / "cluster.id").exists()
