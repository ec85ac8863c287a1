"""The file that names the cluster, lost and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratamq.node.cluster_id import cluster_id


def test_it_stays_the_same(tmp_path: Path) -> None:
    made = cluster_id(tmp_path)
    assert cluster_id(tmp_path) == made


@pytest.mark.parametrize("content", [b"", b"\xff\x00garbage", b"too short\n"])
def test_what_is_no_id_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cluster.id").write_bytes(content)
    made = cluster_id(tmp_path)
    assert cluster_id(tmp_path) == made
    assert (tmp_path / "cluster.id.damaged").read_bytes() == content
