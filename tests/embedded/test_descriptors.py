"""Descriptors are shared by files and connections; both numbers come from one place."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from stratamq.model.config import load
from stratamq.node.core import NodeCore
from stratamq.node.descriptors import raise_limit, share_out

CONNECTIONS, FILES, RESERVED = 2048, 4096, 512


@pytest.mark.parametrize(
    ("limit", "reserved", "files", "connections"),
    [
        (1 << 30, RESERVED, FILES, CONNECTIONS),
        (RESERVED + FILES + CONNECTIONS, RESERVED, FILES, CONNECTIONS),
        (RESERVED + FILES + CONNECTIONS - 1, RESERVED, FILES - 1, CONNECTIONS),
        (4096, RESERVED, 1792, 1792),
        (1024, 256, 384, 384),
        (256, 64, 96, 96),
        (128, 64, 32, 32),
        (64, 32, 16, 16),
        (20, 10, 16, 1),
    ],
)
def test_shares(limit: int, reserved: int, files: int, connections: int) -> None:
    shares = share_out(limit, load())
    assert (shares.reserved, shares.files_max) == (reserved, files)
    assert shares.connections_max(CONNECTIONS) == connections


def test_what_one_does_not_want_the_other_gets() -> None:
    few_connections = share_out(1024, load(flags={"kafka.connections.max": 10}))
    assert (few_connections.files_max, few_connections.connections_max(10)) == (758, 10)
    few_files = share_out(1024, load(flags={"files.open.max": 20}))
    assert (few_files.files_max, few_files.connections_max(2048)) == (20, 748)


def test_connections_may_be_altered_later_but_files_keep_their_share() -> None:
    shares = share_out(4096, load(flags={"kafka.connections.max": 100}))
    assert shares.connections_max(100) == 100
    assert shares.connections_max(5000) == 4096 - RESERVED - shares.files_max


def test_a_node_keeps_to_its_shares(tmp_path: Path) -> None:
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, old[1]))
        core = NodeCore(load(flags={"data.dir": str(tmp_path)}))
        assert core.descriptors.limit == 300
        raise_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (old[1], old[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
