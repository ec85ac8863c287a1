"""A process beside the node: real ones, that answer, exit, crash, are killed, or talk nonsense."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stratamq.lake.tables.errors import TableError
from stratamq.model.errors import CorruptBatch, StorageError
from stratamq.tiering import background
from stratamq.tiering.background import Background, as_error

CHILD = """
import json, os, sys

def say(what):
    print(json.dumps(what), flush=True)

for line in sys.stdin:
    exec(json.loads(line))
"""
"""Does what it is told, line by line."""

Made = Callable[..., Background]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    (tmp_path / "obedient_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    children: list[Background] = []

    def make(**more: Any) -> Background:
        children.append(Background("the child", "obedient_child", **more))
        return children[-1]

    yield make
    for child in children:
        child.kill()


def told(code: str) -> bytes:
    return json.dumps(code).encode() + b"\n"


def ask(child: Background, code: str) -> Any:
    child.say(told(code))
    return child.hear(json.loads)


def is_there(pid: int) -> bool:
    """Running, or dead and not yet taken note of."""
    return Path(f"/proc/{pid}").exists()


def test_one_process_answers_many_times(made: Made) -> None:
    child = made(greeting=told("seen = 'greeting'"))
    assert child.pid is None, "it is started when it is needed"
    assert [ask(child, "say(seen)"), ask(child, "say(seen)")] == ["greeting"] * 2
    assert ask(child, "say(os.getpid())") == child.pid


def test_several_lines_may_answer_one(made: Made) -> None:
    child = made()
    child.say(told("say(1); say(2)"))
    assert [child.hear(json.loads), child.hear(json.loads)] == [1, 2]


def test_it_is_behind_everybody(made: Made) -> None:
    child = made()
    ask(child, "say(0)")
    assert child.pid
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19
    assert os.sched_getscheduler(child.pid) == os.SCHED_IDLE


@pytest.mark.parametrize("credentials", [True, False])
def test_credentials_go_along_where_they_are_needed(
    made: Made, monkeypatch: pytest.MonkeyPatch, credentials: bool
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very secret")
    monkeypatch.setenv("OTHER", "x")
    child = made(credentials=credentials)
    there = ask(child, "say(dict(os.environ))")
    assert ("very secret" in there.values()) is credentials
    assert there["OTHER"] == "x"
    assert ask(child, "import stratamq; say(stratamq.__file__)") == background.stratamq.__file__


@pytest.mark.parametrize(
    ("does", "how"),
    [
        ("sys.exit(3)", "ended with status 3$"),
        ("sys.exit(0)", "ended with status 0$"),
        ("1 / 0", "ended with status 1: .*ZeroDivisionError: division by zero$"),
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL$"),
        ("os.kill(os.getpid(), 40)", "was killed by signal 40$"),
        ("sys.stderr.write('no more memory'); os._exit(1)", "ended with status 1: no more memory$"),
        ("sys.stderr.write('x' * 999 + 'end'); os._exit(1)", r"ended with status 1: x{397}end$"),
        (r"os.write(2, b'\xff'); os._exit(1)", "ended with status 1: \ufffd$"),
        ("os.write(1, b'\"cut off'); os._exit(0)", "ended with status 0$"),
    ],
)
def test_how_it_ended_is_said(made: Made, does: str, how: str) -> None:
    child = made()
    child.say(told(does))
    with pytest.raises(StorageError, match=f"(?s)^the child {how}"):
        child.hear(json.loads)


def test_one_that_is_gone_hears_nothing(made: Made) -> None:
    child = made()
    child.say(told("sys.exit(3)"))
    for _ in range(2):
        with pytest.raises(StorageError, match="ended with status 3"):
            child.hear(json.loads)
        with pytest.raises(StorageError, match="ended with status 3"):
            child.say(told("say(1)"))


def test_one_that_dies_while_it_starts_is_an_error(made: Made, tmp_path: Path) -> None:
    (tmp_path / "obedient_child.py").write_text("raise ImportError('no such library')")
    child = made(greeting=b"hello\n")
    with pytest.raises(StorageError, match=r"no such library$"):
        ask(child, "say(1)" + " " * (1 << 20))


@pytest.mark.parametrize("said", ["print('hello')", "print()", "print('[1]')", "print('{}')"])
def test_what_nobody_understands_is_an_error(made: Made, said: str) -> None:
    child = made()
    child.say(told(f"{said}; sys.stdout.flush()"))

    def decode(line: bytes) -> object:
        ((name, value),) = json.loads(line).items()
        return name, value

    with pytest.raises(StorageError, match="the child said b'"):
        child.hear(decode)


def test_one_that_stops_talking_is_not_waited_for(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PARTING_S", 0.05)
    child = made()
    child.say(told("os.close(1)"))
    with pytest.raises(StorageError, match="does not talk any more"):
        child.hear(json.loads)


def test_killing_ends_a_wait_and_leaves_nothing(made: Made) -> None:
    child = made()
    ask(child, "say(1)")
    pid = child.pid
    assert pid
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(child.hear, json.loads)
        child.kill()
        with pytest.raises(StorageError, match="the child was stopped"):
            waiting.result(20)
    assert not is_there(pid)
    child.kill()  # again, nobody minds
    with pytest.raises(StorageError, match="was stopped"):
        child.say(told("say(1)"))


def test_killed_by_others_it_is_taken_note_of(made: Made) -> None:
    child = made()
    ask(child, "say(1)")
    assert child.pid
    os.kill(child.pid, signal.SIGTERM)
    with pytest.raises(StorageError, match="killed by SIGTERM"):
        child.hear(json.loads)
    assert not is_there(child.pid)


def test_killed_while_it_is_started_it_does_not_stay(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever kills it then finds nothing to kill."""
    starting, go_on, pids = threading.Event(), threading.Event(), []

    def held(pid: int) -> None:
        pids.append(pid)
        starting.set()
        assert go_on.wait(20)

    monkeypatch.setattr(background, "put_last", held)
    child = made()
    with ThreadPoolExecutor(1) as thread:
        asking = thread.submit(ask, child, "say(1)")
        assert starting.wait(20)
        child.kill()
        go_on.set()
        with pytest.raises(StorageError, match="was stopped"):
            asking.result(20)
    assert not is_there(pids[0])


def test_errors_of_ours_keep_their_kind() -> None:
    assert isinstance(as_error("it", "CorruptBatch", "x"), CorruptBatch)
    assert isinstance(as_error("it", "TableError", "x", TableError), TableError)
    for kind in ("TableError", "OffsetOutOfRange", "ZeroDivisionError", "annotations"):
        other = as_error("it", kind, "x")
        assert type(other) is StorageError
        assert str(other) == f"it failed: {kind}: x"
