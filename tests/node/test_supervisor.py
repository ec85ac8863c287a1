"""A service manager hears when a node is ready, alive and stopping: a real node, and the socket
that systemd would have made."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratamq.node.supervisor import Supervisor
from tests.clients.node import running

WAIT_S = 30


@pytest.fixture(params=["file", "abstract"])
def manager(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    name = f"\0stratamq-{os.getpid()}" if request.param == "abstract" else "notify"
    monkeypatch.chdir(tmp_path)  # the path of a socket may have 107 bytes
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name)
        listening.settimeout(WAIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", name.replace("\0", "@"))
        yield listening


def heard(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().splitlines()


def test_ready_and_stopping(manager: socket.socket, tmp_path: Path) -> None:
    with running(tmp_path / "data") as node:
        assert heard(manager) == ["READY=1", f"STATUS={node.ready.rstrip()}"]
        assert node.end() == 0
    assert heard(manager) == ["STOPPING=1"]


def test_the_watchdog_is_fed(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    with running(tmp_path / "data"):
        assert heard(manager)[0] == "READY=1"
        assert [heard(manager) for _ in range(3)] == [["WATCHDOG=1"]] * 3


async def test_the_watchdog_of_another_process_is_not(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    with Supervisor().watched("ready"):
        pass
    assert [heard(manager)[0] for _ in range(2)] == ["READY=1", "STOPPING=1"]


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "soon"}])
async def test_without_one_a_node_serves_all_the_same(environ: dict[str, str]) -> None:
    with Supervisor(environ).watched("ready"):
        pass
