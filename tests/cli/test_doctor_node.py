"""`stratamq doctor --server` on real nodes: what a client sees of them, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratamq.cli import doctor_node
from stratamq.log.names import SPEC
from stratamq.model import findings
from tests.cli.tool import Tool, requires
from tests.clients.node import Node, running


def results(found: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {one["check"]: one["result"] for one in found["checks"]}


def test_a_healthy_node(node: Node) -> None:
    words = ("doctor", "--server", node.address)
    Tool().ok("topic", "create", "seen", "--server", node.address)
    found = Tool().json(*words)
    requires(found, {"checks": [{"check": str, "result": str, "text": str}]})
    assert results(found).keys() == {"connection", *doctor_node.CHECKS}
    assert set(results(found).values()) <= {"ok", "warn"}, found
    assert results(found)["clock"] == "ok"
    text = Tool().ok(*words).output
    assert f"connection: {node.address}, without login, without TLS" in text
    assert f"advertised address: {node.address}" in text


def test_no_node(tmp_path: Path) -> None:
    done = Tool().run("doctor", "--server", "127.0.0.1:1", "--json")
    assert done.code == 1
    (check,) = done.json["checks"]
    assert (check["check"], check["result"]) == ("connection", "fail")
    assert "cannot be reached" in check["text"]
    assert "Is a node running there?" in check["text"]


def test_an_address_that_clients_cannot_reach(tmp_path: Path) -> None:
    flags = ("--kafka-advertised-host", "127.0.0.1", "--kafka-advertised-port", "1")
    with running(tmp_path, "--log-level", "warning", *flags) as node:
        done = Tool().run("doctor", "--server", node.address, "--json")
    assert done.code == 1
    assert results(done.json)["connection"] == "ok"
    (advertised,) = [one for one in done.json["checks"] if one["check"] == "advertised address"]
    assert advertised["result"] == "fail"
    assert "sends clients to 127.0.0.1:1" in advertised["text"]
    assert "kafka.advertised" in advertised["text"]


def test_a_full_disk_and_a_clock_that_is_off(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "FREE_BYTES_FAIL", 1 << 60)
    real = doctor_node.time.time
    monkeypatch.setattr(doctor_node.time, "time", lambda: real() + 3600)
    done = Tool().run("doctor", "--server", node.address, "--json")
    assert done.code == 1
    assert results(done.json)["free space"] == "fail"
    assert results(done.json)["clock"] == "warn"


def test_what_only_the_node_s_machine_shows(tmp_path: Path) -> None:
    """Permissions, descriptors and damage, of a node that runs: it looks itself."""
    few = 512
    with running(tmp_path, "--log-level", "warning", descriptors_max=few) as node:
        Tool().ok("topic", "create", "hurt", "--server", node.address)
        tmp_path.chmod(0o755)
        (shard,) = (tmp_path / "segments").glob("*_0")
        (shard / SPEC).write_bytes(b"what nobody wrote")
        done = Tool().run("doctor", "--server", node.address, "--json")
        tmp_path.chmod(0o700)
    assert done.code == 1
    found = {one["check"]: (one["result"], one["text"]) for one in done.json["checks"]}
    assert found["permissions"][0] == "warn"
    assert f"chmod -R go-rwx {tmp_path}" in found["permissions"][1]
    assert found["open files"][0] == "warn"
    assert f"{few} allowed" in found["open files"][1]
    assert found["stored data"][0] == "fail"
    assert str(shard / SPEC) in found["stored data"][1]


def test_a_slip() -> None:
    assert "--property" in Tool().fails(2, "doctor", "--server", "x:1", "--property", "a=b")
