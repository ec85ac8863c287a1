"""Real etcd servers: one, or a cluster of three."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stratamq.meta.etcd.api import EtcdApi, EtcdUnavailable
from tests.waiting import wait_until


class EtcdMember:
    """One process. `kill` and `start` it as often as wanted."""

    def __init__(self, folder: Path, number: int, ports: list[tuple[int, int]]) -> None:
        self.client_port, peer_port = ports[number]
        cluster = ",".join(f"m{n}=http://127.0.0.1:{peer}" for n, (_, peer) in enumerate(ports))
        self._log = folder / f"m{number}.log"
        self._command = [
            shutil.which("etcd") or "etcd",
            *("--name", f"m{number}", "--data-dir", str(folder / f"m{number}")),
            *("--listen-client-urls", f"http://127.0.0.1:{self.client_port}"),
            *("--advertise-client-urls", f"http://127.0.0.1:{self.client_port}"),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer_port}"),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer_port}"),
            *("--initial-cluster", cluster, "--initial-cluster-state", "new"),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


class EtcdCluster:
    def __init__(self, folder: Path, size: int) -> None:
        ports = _free_ports(2 * size)
        pairs = list(zip(ports[::2], ports[1::2], strict=True))
        self.members = [EtcdMember(folder, number, pairs) for number in range(size)]
        self.url = "etcd://" + ",".join(f"127.0.0.1:{one.client_port}" for one in self.members)

    def stop(self) -> None:
        for member in self.members:
            member.kill()


@contextmanager
def running_etcd(folder: Path, size: int = 1) -> Iterator[EtcdCluster]:
    """Ready to answer."""
    cluster = EtcdCluster(folder, size)
    try:
        for member in cluster.members:
            member.start()
        wait_until(lambda: _answers(cluster.url), "etcd answers")
        yield cluster
    finally:
        cluster.stop()


def _free_ports(count: int) -> list[int]:
    """All at once, or one could be given twice."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _answers(url: str) -> bool:
    api = EtcdApi(url, b"")
    try:
        api.page(b"x", b"y", 1, 0)
    except EtcdUnavailable:
        return False
    finally:
        api.close()
    return True
