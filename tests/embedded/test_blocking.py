"""What only the blocking face must care about: threads, interruptions, the end of the process."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import stratamq
from stratamq.model.errors import Closed, InvalidConfig
from tests.embedded.threads import left_by


@pytest.fixture
def node(tmp_path: Path) -> Iterator[stratamq.Node]:
    with stratamq.open(tmp_path, io_workers=1, reader_threads=1) as node:
        yield node


@pytest.mark.parametrize(
    ("blocking", "face"),
    [(stratamq.Node, stratamq.AsyncNode), (stratamq.Topic, stratamq.AsyncTopic)],
)
def test_the_faces_have_the_same_methods(blocking: type, face: type) -> None:
    inside = {"core", "follower"}  # parts, which belong to one loop
    names = public(blocking) - {"name"}  # which the other has by __init__
    assert public(face) - inside == names
    for name in names - {"follow"}:
        theirs, ours = getattr(face, name), getattr(blocking, name)
        if callable(ours):
            assert inspect.signature(ours) == inspect.signature(theirs)
            assert not inspect.iscoroutinefunction(ours)
            assert ours.__doc__ == theirs.__doc__ or name == "close"


def public(face: type) -> set[str]:
    return {name for name in vars(face) if not name.startswith("_")}


def test_many_threads_get_their_own_offsets(node: stratamq.Node) -> None:
    topic = node.create_topic("t", config={"flush": "os"})
    with ThreadPoolExecutor(8) as threads:
        placed = list(threads.map(lambda n: (n, topic.produce(f"{n}")), range(400)))
    assert sorted(where.offset for _, where in placed) == list(range(400))
    stored = {one.offset: one.text for one in topic.read(limit=400)}
    assert all(stored[where.offset] == f"{number}" for number, where in placed)


def test_a_closed_node_says_so(tmp_path: Path) -> None:
    before = threading.enumerate()
    node = stratamq.open(tmp_path)
    topic = node.create_topic("t")
    messages = topic.follow()
    topic.produce("v")
    assert next(messages).text == "v"
    node.close()
    node.close()
    for call in (node.topics, node.groups, lambda: topic.produce("v"), lambda: next(messages)):
        with pytest.raises(Closed):
            call()
    assert left_by(before, "stratamq", "asyncio") == []


def test_an_abandoned_follow_commits_and_does_not_complain(node: stratamq.Node) -> None:
    topic = node.create_topic("t", config={"flush": "os"})
    topic.produce_many(["a", "b", "c"])
    for message in topic.follow("g"):
        if message.text == "c":
            break
    assert topic.committed("g") == {0: 2}


def test_a_follow_that_outlives_its_node_does_not_complain(tmp_path: Path) -> None:
    with stratamq.open(tmp_path) as node:
        topic = node.create_topic("t", storage="memory")
        topic.produce_many(["a", "b", "c"])
        messages = topic.follow("g")
        assert [next(messages).text, next(messages).text] == ["a", "b"]
    messages.close()  # type: ignore[attr-defined]


def test_bad_settings_start_nothing(tmp_path: Path) -> None:
    before = threading.enumerate()
    with pytest.raises(InvalidConfig, match="io_workers"):
        stratamq.open(tmp_path / "a", io_wrokers=1)
    with pytest.raises(InvalidConfig, match="path"):
        stratamq.open(tmp_path / "a", data_dir="b")
    with pytest.raises(InvalidConfig, match=r"io\.workers"):
        stratamq.open(tmp_path / "a", io_workers=99)
    assert left_by(before, "stratamq", "asyncio") == []
    assert not (tmp_path / "a").exists()


def test_settings_reach_topics(tmp_path: Path) -> None:
    with stratamq.open(tmp_path, topic_retention_ms=5, topic_storage_type="EngineMemory") as node:
        topic = node.create_topic("t")
        assert (topic.config["retention.ms"], topic.storage) == (5, "EngineMemory")
        assert node.create_topic("u", storage="segment").storage == "EngineSegment"


def test_it_works_inside_a_running_event_loop(tmp_path: Path) -> None:
    """As in a notebook, where a loop of its own would not be allowed to run."""

    async def cell() -> str | None:
        with stratamq.open(tmp_path) as node:
            topic = node.create_topic("t", storage="memory")
            topic.produce("v")
            return topic.read()[0].text

    assert asyncio.run(cell()) == "v"


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)


def test_a_process_that_forgets_to_close_ends_cleanly_and_loses_nothing(tmp_path: Path) -> None:
    code = """
import sys, stratamq
node = stratamq.open(sys.argv[1])
for storage in ("segment", "rocksdb", "memory"):
    topic = node.create_topic(storage, storage=storage)
    topic.produce("kept")
for message in topic.follow("g"):
    break
"""
    done = run_python(code, str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with stratamq.open(tmp_path) as node:
        for storage in ("segment", "rocksdb"):
            assert [one.text for one in node.topic(storage).read()] == ["kept"]


def test_ctrl_c_interrupts_a_wait_and_the_node_goes_on(tmp_path: Path) -> None:
    code = """
import asyncio, os, signal, sys, threading, stratamq
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell has put aside
with stratamq.open(sys.argv[1]) as node:
    topic = node.create_topic("t")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        for message in topic.follow():
            pass
    except KeyboardInterrupt:
        print(topic.produce("still here").offset)
        tasks = asyncio.all_tasks(node._loop._loop)
        print([task for task in tasks if "next_batch" in repr(task)])
"""
    done = run_python(code, str(tmp_path))
    assert (done.stderr, done.stdout) == ("", "0\n[]\n"), "nobody waits for what nobody wants"


def test_importing_is_quick_and_draws_in_nothing() -> None:
    code = """
import sys, stratamq
heavy = ("asyncio", "rocksdict", "stratamq.node", "stratamq.engine")
print([name for name in heavy if name in sys.modules])
print(sorted(set(stratamq.__all__) - set(dir(stratamq))))
for name in stratamq.__all__:
    getattr(stratamq, name)
try:
    stratamq.nothing
except AttributeError as error:
    print(error)
"""
    done = run_python(code)
    assert done.stderr == ""
    assert done.stdout == "[]\n[]\nmodule 'stratamq' has no attribute 'nothing'\n"


def test_signals_are_left_alone(tmp_path: Path) -> None:
    """An embedded node is a guest: Ctrl-C belongs to its host."""
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with stratamq.open(tmp_path):
        assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
