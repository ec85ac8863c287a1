"""Every attack there is, some at a time, beside a client that behaves well: memory stays within
bounds, descriptors and threads are as before, and the client loses nothing and waits for nobody."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.attack.hostile import amplifying, lying, stalling
from tests.attack.hostile.target import ATTACKS
from tests.attack.watching import Process
from tests.clients.node import ROOT, Node, running
from tests.waiting import let_run_here, wait_until

MIB = 1 << 20
RESIDENT_BYTES_MAX = 300 * MIB
WAITED_MS_MAX = 50
"""How much longer than at idle a record of the well-behaved client may take, 99 times in 100."""

FILES_MORE_MAX = 128
THREADS_MORE_MAX = 8
"""What may come on top of the start: files of indexes and snapshots, which have limits of their
own, and threads of pools that were not all needed until then."""

LIMITS = (
    *("--topic-flush", "os", "--log-level", "info"),
    *("--kafka-request-bytes-max", str(64 * MIB), "--kafka-response-bytes-max", str(64 * MIB)),
    *("--memory-bytes-max", str(16 * MIB), "--groups-bytes-max", str(8 * MIB)),
    *("--batch-decompressed-bytes-max", str(16 * MIB), "--produce-records-max", "50000"),
    *("--meta-topics-max", "40"),
    *("--group-initial-rebalance-delay-ms", "0"),
)
"""A node that is to take no more than that. See docs/runbook.md."""


def test_the_list_has_all_attacks() -> None:
    for module in (amplifying, lying, stalling):
        assert any(act.__module__ == module.__name__ for act in ATTACKS.values())


class Client:
    """The well-behaved one."""

    def __init__(self, node: Node) -> None:
        self._process = started("well_behaved", node.address, stdin=subprocess.PIPE)

    def phase(self) -> Any:
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> Any:
        assert self._process.stdin
        self._process.stdin.close()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def started(module: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"tests.attack.hostile.{module}", *map(str, arguments)]
    path = f"{ROOT / 'src'}:{ROOT}"
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        **options,
    )


@contextmanager
def well_behaved(node: Node) -> Iterator[Client]:
    client = Client(node)
    try:
        yield client
    finally:
        client.stop()


def attacked(node: Node, seconds: float, seed: int) -> Any:
    attackers = started("driver", node.port, seconds, seed)
    try:
        report, _ = attackers.communicate(timeout=seconds + 300)
    finally:
        attackers.kill()
    assert report, "the attackers failed"
    found = json.loads(report)
    assert not found["failures"], "\n".join([*found["failures"], node.logged()[-5000:]])
    assert set(found["runs"]) == set(ATTACKS), "each at least once"
    return found["runs"]


def run(data: Path, *, idle_s: float, attacks_s: float, seed: int) -> tuple[Any, Any]:
    """What the client waited for at idle, and under attack. All else is checked here."""
    with running(data, *LIMITS) as node, well_behaved(node) as client:
        process = Process(node.process.pid)
        attacked(node, 0, seed)  # all pools have their threads, all caches their files
        client.phase()
        let_run_here(idle_s)
        idle = client.phase()
        descriptors, sockets, threads = process.descriptors(), process.sockets(), process.threads()
        attacked(node, attacks_s, seed + 1)
        under_attack = client.phase()
        peak = process.peak_bytes()
        assert peak < RESIDENT_BYTES_MAX, f"{peak // MIB} MiB"
        wait_until(lambda: process.sockets() <= sockets, "connections as before")
        assert process.descriptors() <= descriptors + FILES_MORE_MAX
        assert process.threads() <= threads + THREADS_MORE_MAX
        end = client.end()
        assert end["whole"], end
        assert not [*idle["errors"], *under_attack["errors"], *end["errors"]]
        assert "Traceback" not in node.logged(), node.logged()
        assert node.end() == 0
    print({"idle": idle, "under attack": under_attack, "peak MiB": peak // MIB})
    return idle, under_attack


def test_all_attacks_for_some_seconds(tmp_path: Path) -> None:
    """How long the client waited is printed, not judged: the tests beside this one use the same
    cores."""
    run(tmp_path, idle_s=3, attacks_s=10, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_all_attacks_for_ten_minutes(tmp_path: Path) -> None:
    idle, under_attack = run(tmp_path, idle_s=20, attacks_s=600, seed=2)
    assert under_attack["p99_ms"] < idle["p99_ms"] + WAITED_MS_MAX
