"""The command as people run it: real processes, real data folders."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratamq.model.config import load, read_file

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "stratamq.cli"]
SECONDS_MAX = 30
READY = r"ready kafka=127.0.0.1:\d+ console=127.0.0.1:\d+"


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200", **more}


def run(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment(**env),
    )


class Server:
    """`stratamq server`, started and ready."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "server", "--data-dir", str(data), "--kafka-port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self.process.stdout
        self.ready = self.process.stdout.readline()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever a test found, its process does not outlive it."""
        if self.process.poll() is None:
            self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> tuple[int, str, str]:
        """Exit code, the rest of standard output, standard error."""
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, output, errors


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(data: Path) -> Iterator[Server]:
    with Server(data) as server:
        yield server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_ready_line_and_a_clean_stop(
    server: Server, data: Path, number: signal.Signals
) -> None:
    assert re.fullmatch(rf"{READY} data={data} node=1\n", server.ready)
    code, output, errors = server.end(number)
    assert (code, output) == (0, "")
    assert "stopped" in errors.splitlines()[-1]


def test_ports_may_be_given_though_not_every_front_is_built(data: Path) -> None:
    ports = ["--mqtt-port", "0", "--console-port", "0"]
    with Server(data, *ports, "--node-id", "3", "--log-format", "json") as server:
        assert re.fullmatch(rf"{READY} data={data} node=3\n", server.ready)
        code, _, errors = server.end(signal.SIGINT)
    assert code == 0
    assert [json.loads(line)["event"] for line in errors.splitlines()][-1] == "stopped"


def test_a_second_node_on_the_same_folder_is_refused(server: Server, data: Path) -> None:
    second = run("server", "--data-dir", data, "--kafka-port", 0)
    assert second.returncode == 1
    assert second.stdout == ""
    assert f"in use by process {server.process.pid}" in second.stderr
    doctor = run("doctor", "--data-dir", data)
    assert doctor.returncode == 0, "that a node runs is no failure"
    assert "ok    lock: a node" in doctor.stdout


def test_after_kill_9_the_folder_is_free_again(server: Server, data: Path) -> None:
    server.end(signal.SIGKILL)
    with Server(data) as again:
        assert again.ready.startswith("ready ")
        assert again.end(signal.SIGTERM)[0] == 0


def test_a_folder_that_cannot_be_made_is_a_sentence_and_no_trace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("server", "--data-dir", tmp_path / "file" / "data")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "file" in result.stderr


def test_bad_configuration_ends_before_anything_is_made(data: Path) -> None:
    result = run("server", "--data-dir", data, "--reader-threads", "none")
    assert result.returncode == 2
    assert "reader.threads: 'none' is not a whole number" in result.stderr
    assert not data.exists()


def test_the_printed_configuration_reads_back_as_itself(tmp_path: Path) -> None:
    flags = {"data.dir": 'a "b" ü', "kafka.port": "7", "topic.flush": "os", "topic.flush.ms": "5"}
    arguments = [word for name, value in flags.items() for word in _as_flag(name, value)]
    printed = run("config", *arguments, STRATAMQ_NODE_ID="9", PYTHONUTF8="1")
    assert printed.returncode == 0, printed.stderr
    assert "node.id = 9  # environment" in printed.stdout
    assert "kafka.port = 7  # flag" in printed.stdout
    assert "mqtt.port = 1883  # default" in printed.stdout
    assert tomllib.loads(printed.stdout)["topic"]["flush.ms"] == 5
    file = tmp_path / "node.toml"
    file.write_text(printed.stdout, encoding="utf-8")
    assert read_file(file) == load(flags={**flags, "node.id": 9}).values


def _as_flag(name: str, value: str) -> list[str]:
    return ["--" + name.replace(".", "-"), value]


def test_a_healthy_machine_passes_the_doctor(data: Path) -> None:
    result = run("doctor", "--data-dir", data)
    assert result.returncode == 0, result.stdout
    assert [line.split(":")[0].split(maxsplit=1)[1] for line in result.stdout.splitlines()] == [
        "data folder",
        "permissions",
        "lock",
        "free space",
        "open files",
        "clock",
        "stored data",
        "java",
    ]
    assert not data.exists()


def test_help_names_every_command() -> None:
    result = run("--help")
    assert result.returncode == 0
    for command in ("server", "config", "doctor", "version"):
        assert command in result.stdout


def test_the_version_is_the_package_s() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert run("version").stdout.strip() == project["version"]
