"""What `deploy/` holds fits the node: settings that exist, ports that are served, time to stop."""

from __future__ import annotations

import re
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from stratamq.model.config import ALL_SETTINGS, env_name, load
from tests.waiting import every

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "stratamq.service"
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
MANIFEST = DEPLOY / "kubernetes" / "stratamq.yaml"
DEFAULTS = load(env={})
GRACE_S = DEFAULTS.number("shutdown.grace.ms") / 1000
PORTS = {DEFAULTS.number("kafka.port"), DEFAULTS.number("console.port")}


def unit() -> RawConfigParser:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser


def manifest(kind: str) -> Any:
    (found,) = [one for one in yaml.safe_load_all(MANIFEST.read_text()) if one["kind"] == kind]
    return found


def container() -> Any:
    (only,) = manifest("StatefulSet")["spec"]["template"]["spec"]["containers"]
    return only


def instructions(word: str) -> list[str]:
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    return re.findall(rf"^{word} (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("path", [UNIT, DOCKERFILE, MANIFEST], ids=lambda path: path.name)
def test_environment_variables_are_settings(path: Path) -> None:
    known = {env_name(name) for name in ALL_SETTINGS}
    assert set(re.findall(r"STRATAMQ_[A-Z_]+\b(?==|,)", path.read_text())) <= known


def test_the_unit_waits_for_ready_and_longer_than_a_graceful_stop() -> None:
    service = unit()["Service"]
    assert service["Type"] == "notify"
    assert float(service["TimeoutStopSec"]) > GRACE_S
    files = DEFAULTS.number("kafka.connections.max") + DEFAULTS.number("files.open.max")
    assert int(service["LimitNOFILE"]) > files + DEFAULTS.number("files.reserved")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is missing")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """With a program in the place of the one that is not installed here."""
    there = re.sub(r"ExecStart=\S+", f"ExecStart={shutil.which('true')}", UNIT.read_text())
    copy = tmp_path / UNIT.name
    copy.write_text(there)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True
    )
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []


def test_the_image_copies_files_that_are_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text()
    for line in every(instructions("COPY")):
        if line.startswith("--from"):
            continue
        for name in every(line.split()[:-1]):
            assert (ROOT / name).exists(), name
            assert f"!{name}\n" in ignored, name


def test_the_image_runs_a_node_as_nobody_special() -> None:
    assert instructions("USER") == ["stratamq"]
    assert set(map(int, instructions("EXPOSE")[0].split())) == PORTS
    assert instructions("ENTRYPOINT") == ['["stratamq"]']


def test_the_pod_serves_the_ports_of_the_service() -> None:
    served = {one["name"]: one["containerPort"] for one in container()["ports"]}
    assert {one["name"]: one["port"] for one in manifest("Service")["spec"]["ports"]} == served
    assert set(served.values()) == PORTS
    probes = [value for key, value in container().items() if key.endswith("Probe")]
    assert {probe["httpGet"]["port"] for probe in probes} == {"console"}
    assert len(probes) == 3


def test_the_pod_may_stop_gracefully_and_has_no_variables_of_services() -> None:
    """Kubernetes would set STRATAMQ_PORT and others, which a node refuses as unknown settings."""
    pod = manifest("StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > GRACE_S
    assert pod["enableServiceLinks"] is False


def test_the_data_is_on_the_volume() -> None:
    variables = {one["name"]: one.get("value", "") for one in container()["env"]}
    mounts = [one["mountPath"] for one in container()["volumeMounts"]]
    data = Path(variables[env_name("data.dir")])
    assert any(str(data).startswith(f"{mount}/") for mount in mounts)
