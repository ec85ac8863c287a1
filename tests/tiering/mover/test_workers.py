"""Converters as processes: started when needed, polite, and no danger to anyone when they fail."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.model.errors import Closed, CorruptBatch, InvalidConfig, StorageError
from stratamq.model.record import Record
from stratamq.model.types import Offset
from stratamq.tiering import background
from stratamq.tiering.converter import worker
from stratamq.tiering.converter.convert import convert
from stratamq.tiering.converter.processes import Converters
from stratamq.tiering.converter.requests import Conversion
from stratamq.wire.kafka.records import encode_batch
from tests.waiting import let_run, until

FAR = Offset(1 << 62)


@pytest.fixture
async def converters() -> AsyncIterator[Converters]:
    opened = Converters(2)
    yield opened
    await opened.close()


def segment(path: Path, batches: int = 3, value: bytes = b"v" * 100) -> Path:
    batch = [Record(value=value)] * 10
    with path.open("wb") as file:
        for number in range(batches):
            file.write(encode_batch(batch, base_offset=number * 10, now_ms=5))
    return path


def request(source: Path, target: Path, **more: str) -> Conversion:
    return Conversion(
        source=source,
        parquet=target,
        partition=0,
        base_offset=Offset(0),
        end_offset=FAR,
        **more,  # type: ignore[arg-type]
    )


def slow(tmp_path: Path) -> Conversion:
    """A pipe that nobody writes to: a conversion that never ends."""
    os.mkfifo(tmp_path / "pipe")
    return request(tmp_path / "pipe", tmp_path / "never.parquet")


def told_by_system(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def alive(pid: int) -> bool:
    """A zombie is not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return told_by_system(pid, "stat").rsplit(")", 1)[1].split()[0] != "Z"
    return False


async def test_as_in_this_process(converters: Converters, tmp_path: Path) -> None:
    source = segment(tmp_path / "a.log")
    made = await converters.convert(request(source, tmp_path / "there.parquet"))
    assert made == convert(request(source, tmp_path / "here.parquet"))
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()
    assert made.rows == 30


async def test_one_process_serves_many(converters: Converters, tmp_path: Path) -> None:
    source = segment(tmp_path / "a.log")
    for number in range(3):
        await converters.convert(request(source, tmp_path / f"{number}"))
    assert len(converters.processes) == 1


async def test_it_gives_way(converters: Converters, tmp_path: Path) -> None:
    await converters.convert(request(segment(tmp_path / "a.log"), tmp_path / "a"))
    (pid,) = converters.processes
    assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    limits = told_by_system(pid, "limits")
    (room,) = [line for line in limits.splitlines() if line.startswith("Max address space")]
    assert int(room.split()[3]) <= worker.MEMORY_BYTES_MAX


def is_last(pid: int) -> bool:
    """Whether it has the lowest priority; it has this process's own otherwise."""
    found = os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)
    if found == (os.SCHED_IDLE, 19):
        return True
    assert found == (os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0))
    return False


async def test_what_a_client_waits_for_does_not_give_way(
    converters: Converters, tmp_path: Path
) -> None:
    """Nor does the work that was under way when the client came: it may have to end first."""
    task = asyncio.create_task(converters.convert(slow(tmp_path)))
    await until(lambda: bool(converters.processes))
    (before,) = converters.processes
    await until(lambda: is_last(before))
    with converters.urgency.awaited():
        await until(lambda: not is_last(before))
        await converters.convert(request(segment(tmp_path / "a.log"), tmp_path / "a"))
        (other,) = set(converters.processes) - {before}
        assert not is_last(other)
    assert is_last(before)
    await converters.convert(request(tmp_path / "a.log", tmp_path / "a"))
    assert is_last(other), "it works in the background again"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_where_none_may_become_more_important_another_is_started(
    converters: Converters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system has it for ordinary users."""
    await converters.convert(request(segment(tmp_path / "a.log"), tmp_path / "a"))
    (first,) = converters.processes
    assert is_last(first)
    monkeypatch.setattr(background, "compete", lambda pid: False)
    with converters.urgency.awaited():
        await converters.convert(request(tmp_path / "a.log", tmp_path / "a"))
    (second,) = converters.processes
    assert second != first
    assert not is_last(second)
    await until(lambda: not alive(first))


async def test_no_credentials_go_along(
    converters: Converters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very secret")
    await converters.convert(request(segment(tmp_path / "a.log"), tmp_path / "a"))
    (pid,) = converters.processes
    assert "very secret" not in told_by_system(pid, "environ")


async def test_progress_is_told(converters: Converters, tmp_path: Path) -> None:
    source = segment(tmp_path / "a.log", batches=3000, value=os.urandom(4096))
    told: list[int] = []
    await converters.convert(request(source, tmp_path / "a"), told.append)
    assert told
    assert told == sorted(told)
    assert told[-1] <= source.stat().st_size


async def test_errors_keep_their_kind(converters: Converters, tmp_path: Path) -> None:
    damaged = tmp_path / "b.log"
    damaged.write_bytes(segment(tmp_path / "a.log").read_bytes()[:-1])
    with pytest.raises(CorruptBatch):
        await converters.convert(request(damaged, tmp_path / "b"))
    with pytest.raises(InvalidConfig, match="schema"):
        await converters.convert(
            request(tmp_path / "a.log", tmp_path / "a", value_format="json", value_schema="{")
        )
    with pytest.raises(StorageError, match="No such file"):
        await converters.convert(request(tmp_path / "none.log", tmp_path / "a"))
    assert (await converters.convert(request(tmp_path / "a.log", tmp_path / "a"))).rows == 30


async def test_a_converter_that_dies_is_the_error_of_one_segment(
    converters: Converters, tmp_path: Path
) -> None:
    task = asyncio.create_task(converters.convert(slow(tmp_path)))
    await until(lambda: bool(converters.processes))
    os.kill(converters.processes[0], signal.SIGKILL)
    with pytest.raises(StorageError, match="killed by SIGKILL"):
        await task
    made = await converters.convert(request(segment(tmp_path / "a.log"), tmp_path / "a"))
    assert made.rows == 30


async def test_no_more_at_once_than_allowed(tmp_path: Path) -> None:
    converters = Converters(1)
    never = asyncio.create_task(converters.convert(slow(tmp_path)))
    await until(lambda: bool(converters.processes))
    waits = asyncio.create_task(
        converters.convert(request(segment(tmp_path / "a.log"), tmp_path / "a"))
    )
    await let_run(0.2)
    assert len(converters.processes) == 1
    never.cancel()
    assert (await waits).rows == 30
    with pytest.raises(asyncio.CancelledError):
        await never
    await converters.close()


async def test_cancelling_ends_the_process(converters: Converters, tmp_path: Path) -> None:
    task = asyncio.create_task(converters.convert(slow(tmp_path)))
    await until(lambda: bool(converters.processes))
    (pid,) = converters.processes
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(pid)
    assert converters.processes == []


async def test_one_that_waits_for_too_long_may_compete(tmp_path: Path) -> None:
    converters = Converters(1, patience_s=0.5)
    task = asyncio.create_task(converters.convert(slow(tmp_path)))
    await until(lambda: bool(converters.processes))
    (pid,) = converters.processes
    await until(lambda: os.sched_getscheduler(pid) == os.SCHED_IDLE)
    await until(lambda: os.sched_getscheduler(pid) == os.SCHED_OTHER)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await converters.close()


async def test_idle_ones_are_stopped(tmp_path: Path) -> None:
    converters = Converters(1, idle_s=0.05)
    await converters.convert(request(segment(tmp_path / "a.log"), tmp_path / "a"))
    (pid,) = converters.processes
    await until(lambda: not converters.processes and not alive(pid))
    made = await converters.convert(request(tmp_path / "a.log", tmp_path / "a"))
    assert made.rows == 30
    await converters.close()


async def test_closing_ends_everything(tmp_path: Path) -> None:
    converters = Converters(2)
    await converters.convert(request(segment(tmp_path / "a.log"), tmp_path / "a"))
    task = asyncio.create_task(converters.convert(slow(tmp_path)))
    await let_run(0.1)
    pids = converters.processes
    assert pids
    await converters.close()
    with pytest.raises(StorageError, match="stopped"):
        await task
    assert not any(map(alive, pids))
    with pytest.raises(Closed):
        await converters.convert(request(tmp_path / "a.log", tmp_path / "a"))


PARENT = """
import asyncio, sys
from pathlib import Path
from tests.tiering.mover.test_workers import Converters, slow
from tests.waiting import until

async def main():
    converters = Converters(1)
    task = asyncio.create_task(converters.convert(slow(Path(sys.argv[1]))))
    await until(lambda: converters.processes)
    print(converters.processes[0], flush=True)
    await task

asyncio.run(main())
"""


def convert_and_be_killed(tmp_path: Path) -> int:
    """The converter's process id, seen alive before."""
    root = Path(__file__).parents[3]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": f"{root / 'src'}:{root}"},
    )
    assert parent.stdout
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.communicate()
    return pid


async def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    pid = await asyncio.to_thread(convert_and_be_killed, tmp_path)
    await until(lambda: not alive(pid))


async def test_memory_is_bounded(converters: Converters, tmp_path: Path) -> None:
    """A segment of 200 MB in far less."""
    source = segment(tmp_path / "a.log", batches=20_000, value=os.urandom(1000))
    await converters.convert(request(source, tmp_path / "a"))
    (pid,) = converters.processes
    status = told_by_system(pid, "status")
    (peak,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    assert int(peak.split()[1]) * 1024 < 400 << 20
