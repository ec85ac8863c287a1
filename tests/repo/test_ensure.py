"""`scripts/ensure` finds what is there, installs as root on Debian, and asks everybody else.

The programs it calls are small stand-ins on a PATH of their own: nothing is really installed.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "dirname", "grep", "sort", "tr", "env", "cat", "chmod")
JAVA = "#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n"


class Machine:
    """A PATH with the bare minimum, where `apt-get install` only makes the program appear."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.asked = folder / "apt"
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, tool
            (self.bin / tool).symlink_to(found)

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def user(self, uid: int) -> None:
        self.program("id", f"#!/bin/sh\necho {uid}\n")

    def apt(self, installs: str, text: str = "#!/bin/sh\n") -> None:
        """A package manager that brings the program `installs`."""
        target = self.bin / installs
        self.program(
            "apt-get",
            f'#!/bin/sh\necho "$@" >> {self.asked}\n'
            f"cat > {target} <<'END'\n{text}\nEND\nchmod +x {target}\n",
        )

    def ensure(
        self, *wanted: str, script: Path = ROOT / "scripts" / "ensure", **env: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [shutil.which("bash") or "bash", script, *wanted],
            capture_output=True,
            text=True,
            timeout=30,
            env={"PATH": str(self.bin), **env},
        )

    def installed(self) -> str:
        return self.asked.read_text() if self.asked.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_java_that_is_there_is_left_alone(machine: Machine) -> None:
    machine.user(0)
    machine.apt("java")
    machine.program("java", JAVA.format(version="17.0.15"))
    result = machine.ensure("java")
    assert (result.returncode, result.stderr, machine.installed()) == (0, "", "")


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_an_old_java_is_replaced_by_root(machine: Machine, version: str) -> None:
    machine.user(0)
    machine.program("java", JAVA.format(version=version))
    machine.apt("java", JAVA.format(version="17.0.15"))
    result = machine.ensure("java")
    assert result.returncode == 0
    assert "openjdk-17-jre-headless" in machine.installed()
    assert "please" not in result.stderr


def test_java_home_is_looked_at_first(machine: Machine, tmp_path: Path) -> None:
    machine.user(1000)
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(JAVA.format(version="21.0.1"))
    (home / "bin" / "java").chmod(0o755)
    assert machine.ensure("java", JAVA_HOME=str(home)).stderr == ""


def test_others_than_root_are_asked_in_one_sentence(machine: Machine) -> None:
    machine.user(1000)
    machine.apt("java", JAVA.format(version="17.0.15"))
    result = machine.ensure("java")
    assert result.returncode == 0
    assert machine.installed() == ""
    assert result.stderr.splitlines() == [
        "Java 17 is missing: please install it "
        "(on Debian: apt-get install openjdk-17-jre-headless)."
    ]


def test_root_without_apt_is_asked_too(machine: Machine) -> None:
    machine.user(0)
    assert "please install" in machine.ensure("java").stderr


def test_a_failed_install_ends_in_the_request(machine: Machine) -> None:
    machine.user(0)
    machine.program("apt-get", "#!/bin/sh\nexit 100\n")
    result = machine.ensure("kcat")
    assert result.returncode == 0
    assert result.stderr.splitlines()[-1].startswith("kcat is missing: please install it")


def test_a_program_is_installed_by_the_name_of_its_package(machine: Machine) -> None:
    machine.user(0)
    machine.apt("mosquitto_pub")
    assert "please" not in machine.ensure("mosquitto_pub").stderr
    assert machine.installed().split()[-1] == "mosquitto-clients"


def test_a_python_that_can_build_is_enough(machine: Machine) -> None:
    machine.user(1000)
    machine.program("gcc", "#!/bin/sh\n")
    result = machine.ensure("python", PYTHON=sys.executable)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_python_too_old_is_refused_in_one_sentence(machine: Machine) -> None:
    machine.user(0)
    machine.program("old", "#!/bin/sh\nexit 1\n")
    result = machine.ensure("python", PYTHON="old")
    assert result.returncode == 1
    assert result.stderr.startswith("Python 3.11 or newer is missing")


def test_a_missing_compiler_stops_others_than_root(machine: Machine) -> None:
    machine.user(1000)
    result = machine.ensure("python", PYTHON=sys.executable)
    assert result.returncode == 1
    assert "apt-get install gcc" in result.stderr


def ensure_for_tests(machine: Machine, tmp_path: Path, test: str) -> None:
    """In a checkout with this one test file, installing all that is missing."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    (checkout / "tests").mkdir()
    shutil.copy(ROOT / "scripts" / "ensure", checkout / "scripts")
    (checkout / "tests" / "test_it.py").write_text(test)
    machine.user(0)
    machine.program("openssl", "#!/bin/sh\n")
    machine.apt("kcat")
    result = machine.ensure("for-tests", script=checkout / "scripts" / "ensure")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "test",
    [
        '@pytest.mark.needs("kcat")\ndef test(): ...',
        'pytestmark = pytest.mark.needs("openssl", "kcat")',
        'pytestmark = [pytest.mark.needs("kcat"), pytest.mark.xdist_group("spark")]',
        'pytestmark = [pytest.mark.long, pytest.mark.needs("kcat"), pytest.mark.timeout(900)]',
        'pytestmark = [\n    pytest.mark.needs("kcat"),\n    pytest.mark.xdist_group("spark"),\n]',
        'item.add_marker(pytest.mark.needs("kcat"))',
        'class Test:\n    @pytest.mark.needs("kcat")\n    def test(self): ...',
    ],
)
def test_what_tests_name_is_installed(machine: Machine, tmp_path: Path, test: str) -> None:
    ensure_for_tests(machine, tmp_path, test)
    assert [line.split()[-1] for line in machine.installed().splitlines()] == ["kcat"]


@pytest.mark.parametrize("test", ["", '"""As in `@pytest.mark.needs("kcat")`."""'])
def test_what_no_test_needs_is_not_installed(machine: Machine, tmp_path: Path, test: str) -> None:
    ensure_for_tests(machine, tmp_path, test)
    assert machine.installed() == ""


@pytest.mark.parametrize("name", ["spark", "no-such-program"])
def test_a_word_that_is_no_known_program_is_never_installed(machine: Machine, name: str) -> None:
    machine.user(0)
    machine.apt(name)
    result = machine.ensure(name)
    assert result.returncode == 1
    assert f"{name} is no program that scripts/ensure knows" in result.stderr
    assert machine.installed() == ""


def needed_by_tests() -> set[str]:
    """Every argument of `pytest.mark.needs(...)` in the tests' own code."""
    calls = [
        node
        for file in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.needs"
    ]
    return {ast.literal_eval(one) for call in calls for one in call.args}


def test_all_that_our_tests_need_is_known_and_looked_for(machine: Machine) -> None:
    """The script searches text and this test the syntax: both find the same programs."""
    machine.user(1000)
    result = machine.ensure("for-tests")
    assert result.returncode == 0, result.stderr
    missing = {line.split(" is missing")[0] for line in result.stderr.splitlines()}
    assert missing == {"Java 17" if one == "java" else one for one in needed_by_tests()}


BARE_PYTHON = """#!/bin/sh
case "$2" in
    *ensurepip*) exit 1 ;;
    *version_info*) exit 0 ;;
esac
[ "$1" = - ] && exit 1
"""
"""What a fresh Debian has: Python, but neither venv nor headers."""


def test_root_gets_what_a_bare_python_lacks(machine: Machine) -> None:
    machine.user(0)
    machine.program("bare", BARE_PYTHON)
    machine.program("gcc", "#!/bin/sh\n")
    machine.apt("anything")
    assert machine.ensure("python", PYTHON="bare").returncode == 0
    assert machine.installed().split()[-2:] == ["python3-venv", "python3-dev"]


def test_others_are_told_what_a_bare_python_lacks(machine: Machine) -> None:
    machine.user(1000)
    machine.program("bare", BARE_PYTHON)
    machine.program("gcc", "#!/bin/sh\n")
    result = machine.ensure("python", PYTHON="bare")
    assert result.returncode == 1
    assert "apt-get install python3-venv python3-dev" in result.stderr
