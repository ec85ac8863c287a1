"""The wheel, as a user installs it: into an empty environment, then a node, then a message."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.clients.node import running

pytestmark = pytest.mark.xdist_group("packages")  # built once

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^\S+==\S+", re.MULTILINE)
READY = re.compile(r"ready kafka=(\S+) ")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "dist.py", folder], check=True, capture_output=True
    )
    return folder


def test_the_source_distribution_holds_sources_of_kernels_and_nothing_generated(
    built: Path,
) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = archive.getnames()
    suffixes = {Path(name).suffix for name in names}
    assert {".pyx", ".pxi", ".pyi", ".tmpl"} <= suffixes
    assert not {".c", ".so"} & suffixes
    assert not [name for name in names if "/tests/" in name]


def test_the_wheel_holds_modules_and_no_source_of_kernels(built: Path) -> None:
    (path,) = built.glob("stratamq-*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
    assert {".so", ".pyi", ".tmpl"} <= {Path(name).suffix for name in names}
    assert not {".c", ".pyx", ".pxi"} & {Path(name).suffix for name in names}
    assert "stratamq/py.typed" in names


def installed(wheel: Path, folder: Path) -> Path:
    """The command, in an empty environment with this wheel and what it asks for."""
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    pins = folder / "pins.txt"
    pins.write_text("\n".join(PIN.findall((ROOT / "constraints-lake.txt").read_text())))
    pip = (folder / "env/bin/python", "-m", "pip", "--disable-pip-version-check")
    subprocess.run([*pip, "install", "--quiet", "-c", pins, wheel], check=True)
    return folder / "env/bin/stratamq"


def alone() -> dict[str, str]:
    """The environment, without what would lead to modules of this checkout or to another node."""
    foreign = ("PYTHON", "STRATAMQ_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


@pytest.mark.timeout(600)  # packages may have to be fetched
def test_an_empty_environment_runs_a_node_and_passes_a_message(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("stratamq-*.whl")
    stratamq = installed(wheel, tmp_path)
    node = subprocess.Popen(
        [stratamq, "server", "--data-dir", "data", "--kafka-port", "0", "--console-port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=alone(),
    )
    try:
        assert node.stdout
        ready = READY.match(node.stdout.readline())
        assert ready

        def tool(*words: str, given: str = "") -> str:
            command = [stratamq, *words, "--server", ready[1]]
            return subprocess.run(
                command, input=given, stdout=subprocess.PIPE, text=True, check=True, env=alone()
            ).stdout

        tool("topic", "create", "greetings")
        tool("produce", "greetings", given="hello\n")
        assert tool("consume", "greetings", "--count", "1") == "hello\n"
        node.terminate()
        assert node.wait(30) == 0
    finally:
        node.kill()
        node.communicate()


@pytest.mark.timeout(600)
def test_a_client_alone_reaches_a_node_and_names_what_it_lacks(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("stratamq_client-*.whl")
    stratamq = installed(wheel, tmp_path)
    there = {path.name for path in (tmp_path / "env/lib").glob("python*/site-packages/*")}
    assert "stratamq" in there
    assert not {"rocksdict", "pyarrow", "pyiceberg", "starlette", "uvicorn", "botocore"} & there

    def tool(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [stratamq, *words], input=given, capture_output=True, text=True, env=alone()
        )

    with running(tmp_path / "data", "--log-level", "warning") as node:
        at = ("--server", node.address)
        assert tool("topic", "create", "greetings", *at).returncode == 0
        assert tool("produce", "greetings", *at, given="hello\n").returncode == 0
        assert tool("consume", "greetings", "--count", "1", *at).stdout == "hello\n"
        assert "greetings" in tool("topic", "list", *at).stdout
        checks = tool("doctor", *at)
        assert checks.stdout.startswith("ok    connection: "), checks
    for words in (["server"], ["server", "--help"], ["segment", "list"], ["doctor"]):
        said = tool(*words)
        assert (said.returncode, said.stdout) == (1, "")
        assert said.stderr.endswith("the server, which is not installed: pip install stratamq\n")
        assert said.stderr.count("\n") == 1
    assert tool("--help").returncode == 0
    assert tool("version").stdout == f"{wheel.name.split('-')[1]}\n"
