"""A data folder has one node at a time, and no lock outlives its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stratamq
from stratamq.node.data_dir import DataDirInUse, DataDirLock
from stratamq.node.layout import LOCK_FILE

HOLDER = """
import sys, time
import stratamq
node = stratamq.open(sys.argv[1], io_workers=1)
print("open", flush=True)
time.sleep(60)
"""


def start_holder(path: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HOLDER, str(path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    return child


def test_another_process_has_it(tmp_path: Path) -> None:
    with start_holder(tmp_path) as child:
        try:
            with pytest.raises(DataDirInUse, match=f"process {child.pid}"):
                stratamq.open(tmp_path)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        stratamq.open(tmp_path).close()  # nothing is stale after kill -9


def test_this_process_has_it(tmp_path: Path) -> None:
    with (
        stratamq.open(tmp_path) as node,
        pytest.raises(DataDirInUse, match="this process"),
    ):
        stratamq.open(node.path)
    with stratamq.open(tmp_path):
        pass


async def test_the_faces_exclude_each_other(tmp_path: Path) -> None:
    async with stratamq.aopen(tmp_path):
        with pytest.raises(DataDirInUse):
            stratamq.open(tmp_path)
    with stratamq.open(tmp_path), pytest.raises(DataDirInUse):
        await stratamq.aopen(tmp_path)


def test_a_lock_file_that_says_nothing_still_locks(tmp_path: Path) -> None:
    first, second = DataDirLock(tmp_path), DataDirLock(tmp_path)
    first.acquire()
    (tmp_path / LOCK_FILE).write_text("rubbish")
    with pytest.raises(DataDirInUse, match="another process"):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
    assert (tmp_path / LOCK_FILE).read_text() == f"{os.getpid()}\n"
    second.release()


def test_a_child_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    first, second = DataDirLock(tmp_path), DataDirLock(tmp_path)
    first.acquire()
    child = os.fork()
    if child == 0:  # with a copy of every descriptor
        signal.pause()
        os._exit(0)
    try:
        first.release()
        second.acquire()
        second.release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
