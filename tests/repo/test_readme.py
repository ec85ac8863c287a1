"""The tour in the README is true: every command in it is run, and shows what it says.

`console` blocks are sessions: `$ command`, then what it prints. A `python` block is a program, and
the `text` block behind it is its output. `...` stands for anything.
"""

from __future__ import annotations

import fnmatch
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS_MAX = 100


class Step(NamedTuple):
    """A command or program, and the output that the README promises."""

    kind: str
    text: str
    output: str


def steps() -> Iterator[Step]:
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    for number, (kind, text) in enumerate(blocks):
        if kind == "console":
            for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, output = command.partition("\n")
                yield Step("console", line, output)
        elif kind == "python":
            following = blocks[number + 1]
            assert following[0] == "text", "a program's output stands behind it"
            yield Step("python", text, following[1])


class Session:
    """A folder to be in, and the one process that may run in the background."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.background: subprocess.Popen[str] | None = None
        (folder / ".venv").symlink_to(sys.prefix)

    def take(self, step: Step) -> str:
        if step.kind == "python":
            return self._run([sys.executable, "-c", step.text])
        if step.text == "kill %1":
            return self._end_background()
        if step.text.endswith("&"):
            return self._start(step.text.removesuffix("&"))
        if step.text.startswith("make "):
            return self._run(["make", "--silent", "-C", str(ROOT), *step.text.split()[1:]])
        return self._run(step.text.split())

    def _run(self, command: list[str]) -> str:
        return subprocess.run(
            command,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            timeout=SECONDS_MAX,
            check=True,
            env={name: value for name, value in os.environ.items() if name != "MAKEFLAGS"},
        ).stdout

    def _start(self, command: str) -> str:
        self.background = subprocess.Popen(
            command.split(), cwd=self.folder, stdout=subprocess.PIPE, text=True
        )
        assert self.background.stdout
        return self.background.stdout.readline()

    def _end_background(self) -> str:
        assert self.background
        self.background.send_signal(signal.SIGTERM)
        output, _ = self.background.communicate(timeout=SECONDS_MAX)
        assert self.background.returncode == 0
        return output


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path)
    yield session
    if session.background and session.background.poll() is None:
        session.background.kill()
        session.background.communicate()


def matches(actual: str, promised: str) -> bool:
    pattern = re.sub(r"([\[\]?*])", r"[\1]", promised).replace("...", "*")
    return fnmatch.fnmatchcase(actual.strip(), pattern.strip())


def test_the_tour_is_true(session: Session) -> None:
    taken = list(steps())
    assert len(taken) >= 5, "the tour is not found any more"
    for step in taken:
        actual = session.take(step)
        assert matches(actual, step.output), f"{step.text}\nprinted\n{actual}"
    left = sorted(path.name for path in session.folder.iterdir())
    assert left == [".venv", "tour"], "a tour leaves nothing but its data"


@pytest.mark.parametrize(
    ("actual", "promised", "same"),
    [
        ("a\n", "a\n", True),
        ("a b c", "a ... c", True),
        ("a[0]*", "a[0]*", True),
        ("axx", "a*", False),
        ("b", "a", False),
        ("a\nb", "a", False),
    ],
)
def test_the_comparison_itself(actual: str, promised: str, same: bool) -> None:
    assert matches(actual, promised) is same
