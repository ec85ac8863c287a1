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
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
    assert {".so", ".pyi", ".tmpl"} <= {Path(name).suffix for name in names}
    assert not {".c", ".pyx", ".pxi"} & {Path(name).suffix for name in names}
    assert "stratamq/py.typed" in names


@pytest.mark.timeout(600)  # packages may have to be fetched
def test_an_empty_environment_runs_a_node_and_passes_a_message(built: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    (wheel,) = built.glob("*.whl")
    pins = tmp_path / "pins.txt"
    pins.write_text("\n".join(PIN.findall((ROOT / "constraints-lake.txt").read_text())))
    pip = (tmp_path / "env/bin/python", "-m", "pip", "--disable-pip-version-check")
    subprocess.run([*pip, "install", "--quiet", "-c", pins, wheel], check=True)
    stratamq = tmp_path / "env/bin/stratamq"
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    node = subprocess.Popen(
        [stratamq, "server", "--data-dir", "data", "--kafka-port", "0", "--console-port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=alone,
    )
    try:
        assert node.stdout
        ready = READY.match(node.stdout.readline())
        assert ready

        def tool(*words: str, given: str = "") -> str:
            command = [stratamq, *words, "--server", ready[1]]
            return subprocess.run(
                command, input=given, stdout=subprocess.PIPE, text=True, check=True, env=alone
            ).stdout

        tool("topic", "create", "greetings")
        tool("produce", "greetings", given="hello\n")
        assert tool("consume", "greetings", "--count", "1") == "hello\n"
        node.terminate()
        assert node.wait(30) == 0
    finally:
        node.kill()
        node.communicate()
