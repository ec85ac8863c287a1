"""A node that is killed in the middle of a backup is fine, and what is left is no backup."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stratamq.model.errors import CapacityExceeded, Closed, DiskFull, StorageError
from stratamq.model.types import Offset
from stratamq.node import backup
from stratamq.node.backup import BackupRun, NodeBackups
from stratamq.node.backup_folder import PARTIAL
from stratamq.node.data_dir import read_damage
from stratamq.node.embedded import AsyncNode
from stratamq.node.restore import restore
from tests.backup.embedded import SMALL, EventfulRun, fill, ignore, numbers
from tests.waiting import let_run, until

PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from stratamq.node import backup
from stratamq.node.embedded import AsyncNode
from tests.backup.embedded import SMALL, EventfulRun, fill, nothing

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def dying():
    die()

async def main(data, partial, step):
    if step == "manifest":
        backup.finish = die
    async with AsyncNode(data) as node:
        await fill(await node.create_topic("t", config=SMALL), 0, 50)
        await EventfulRun(node.core, partial, dying if step == "records" else nothing).make()

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
"""


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run(data: Path, partial: Path, step: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(data), str(partial), step],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).resolve().parents[2],
    ).returncode


@pytest.mark.parametrize("step", ["records", "manifest"])
async def test_a_killed_node_leaves_no_backup(tmp_path: Path, step: str) -> None:
    partial = tmp_path / f"monday{PARTIAL}"
    assert run(tmp_path / "data", partial, step) == -signal.SIGKILL
    assert partial.is_dir()
    assert not (tmp_path / "monday").exists()
    with pytest.raises(StorageError, match=r"has no manifest\.json: it is not a backup, or one"):
        restore(partial, tmp_path / "restored", ignore)
    assert not (tmp_path / "restored").exists()
    async with AsyncNode(tmp_path / "data") as node:
        topic = await node.topic("t")
        assert await numbers(topic) == list(range(50))
        assert (await topic.produce("next")).offset == 50
    assert read_damage(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (OSError(28, "No space left on device"), DiskFull, "partial: No space left on device"),
        (RuntimeError("can't start new thread"), StorageError, "monday was not made: RuntimeErr"),
    ],
)
async def test_one_that_fails_is_removed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[StorageError],
    said: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(backup, "write_rows", fail)
    async with AsyncNode(tmp_path / "data") as node:
        await fill(await node.create_topic("t", config=SMALL), 0, 50)
        with pytest.raises(kind, match=said):
            await BackupRun(node.core, tmp_path / f"monday{PARTIAL}").make()
        assert names_in(tmp_path) == ["data"]
        [engine] = node.core.engines.values()
        [shard] = engine.list_shards()
        await engine.offload(shard, Offset(0))  # it is held no more


async def test_a_folder_that_another_made_meanwhile_stays(tmp_path: Path) -> None:
    partial = tmp_path / f"monday{PARTIAL}"
    async with AsyncNode(tmp_path / "data") as node:
        partial.mkdir()
        with pytest.raises(StorageError, match="partial: File exists"):
            await BackupRun(node.core, partial).make()
        assert partial.is_dir()


async def test_a_folder_that_does_not_answer_holds_up_no_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, resolve, loop = threading.Event(), Path.resolve, threading.current_thread()

    def resolve_slowly(path: Path, *_: object) -> Path:
        assert threading.current_thread() is not loop
        answers.wait(60)
        return resolve(path)

    async with AsyncNode(tmp_path / "data", backup_folder=str(tmp_path / "backups")) as node:
        await fill(await node.create_topic("t", config=SMALL), 0, 50)
        backups = NodeBackups(node.core)
        monkeypatch.setattr(Path, "resolve", resolve_slowly)
        first = asyncio.create_task(backups.begin("monday"))
        await let_run(0)
        first.cancel()  # its thread waits on
        with pytest.raises(CapacityExceeded, match="just being begun"):
            await backups.begin("tuesday")

        async def begun() -> bool:
            with contextlib.suppress(CapacityExceeded):
                await backups.begin("tuesday")
                return True
            return False

        answers.set()
        await until(begun)
        with pytest.raises(CapacityExceeded, match=r"is under way: .*tuesday; one at a time"):
            await backups.begin("wednesday")
        found = await backups.wait("tuesday", 60_000)
        assert found.finished is not None
        assert names_in(tmp_path / "backups") == ["tuesday"]


async def test_one_that_is_stopped_is_removed(tmp_path: Path) -> None:
    async with AsyncNode(tmp_path / "data") as node:
        await fill(await node.create_topic("t", config=SMALL), 0, 50)
        runs: list[BackupRun] = []

        async def stop() -> None:
            runs[0].stop()

        runs.append(EventfulRun(node.core, tmp_path / f"monday{PARTIAL}", stop))
        with pytest.raises(Closed):
            await runs[0].make()
        assert names_in(tmp_path) == ["data"]
