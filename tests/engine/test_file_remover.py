"""Removed files are freed soon, by a thread of their own."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment import disk_threads as module
from stratamq.engine.segment.disk_threads import FileRemover
from stratamq.engine.segment.storage import SegmentStorage
from stratamq.log.disk import RealDisk
from stratamq.log.freeing import STEP_BYTES
from tests.engine.support import S, spec
from tests.waiting import let_run_here, wait_until


def open_files() -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return found


def held(path: Path) -> bool:
    return f"{path} (deleted)" in open_files()


def removed(disk: RealDisk, path: Path) -> None:
    path.write_bytes(bytes(4 * STEP_BYTES))
    disk.open(path).read(10, 0)
    disk.unlink(path)


def started() -> FileRemover:
    remover = FileRemover()
    remover.start()
    return remover


def test_a_removed_segment_is_closed(tmp_path: Path) -> None:
    remover = started()
    disk, path = RealDisk(free_later=remover.free_later), tmp_path / "segment"
    removed(disk, path)
    wait_until(lambda: not held(path), "it is freed")
    remover.close()


def test_closing_leaves_nothing_open(tmp_path: Path) -> None:
    remover = started()
    disk = RealDisk(free_later=remover.free_later)
    paths = [tmp_path / f"{number}" for number in range(20)]
    for path in paths:
        removed(disk, path)
    remover.close()
    assert not any(map(held, paths))


def test_files_are_not_hoarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 2)

    def slow(fd: int) -> None:
        let_run_here(0.5)
        os.close(fd)

    monkeypatch.setattr(module, "free", slow)
    remover = started()
    disk = RealDisk(free_later=remover.free_later)
    paths = [tmp_path / f"{number}" for number in range(9)]
    for path in paths:
        removed(disk, path)
    assert sum(map(held, paths)) <= 3
    remover.close()


@pytest.mark.parametrize("change", ["unlink", "rename", "rmdir"])
def test_the_last_reader_of_a_removed_file_does_not_free_it(tmp_path: Path, change: str) -> None:
    """It hands its descriptor over: closing it would free all blocks on the reader's thread."""
    given: list[int] = []
    disk, path = RealDisk(free_later=given.append), tmp_path / "shard" / "segment"
    path.parent.mkdir()
    path.write_bytes(bytes(2 * STEP_BYTES))
    reader = disk.open(path)
    if change == "unlink":
        disk.unlink(path)
    elif change == "rename":
        (tmp_path / "new").write_bytes(b"new")
        disk.rename(tmp_path / "new", path)
    else:
        disk.remove_folder(path.parent)
    assert len(given) == 1
    assert reader.size() == 2 * STEP_BYTES
    del reader
    assert len(given) == 2
    for fd in given:
        os.close(fd)


def test_a_folder_goes_the_same_way(tmp_path: Path) -> None:
    given: list[int] = []
    disk, folder = RealDisk(free_later=given.append), tmp_path / "shard.gone"
    folder.mkdir()
    (folder / "segment").write_bytes(bytes(2 * STEP_BYTES))
    (folder / "spec").write_bytes(b"{}")
    disk.remove_folder(folder)
    assert not folder.exists()
    assert len(given) == 1
    os.close(given[0])


def remover_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "stratamq-remove"]


def test_the_keeper_of_segments_has_one_as_long_as_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large segment of a shard that is deleted is freed by the remover's thread."""
    freed_by: list[str] = []

    def free(fd: int) -> None:
        freed_by.append(threading.current_thread().name)
        os.close(fd)

    monkeypatch.setattr(module, "free", free)
    others = remover_threads()  # of nodes that other tests keep
    storage = SegmentStorage(tmp_path, EngineLimits())
    storage.open()
    (store,) = storage.create([spec(S)])
    segment = next((tmp_path / "segments" / S).glob("*.log"))
    os.truncate(segment, 4 * STEP_BYTES)
    storage.destroy(spec(S), store)
    wait_until(lambda: freed_by, "it is freed")
    assert set(freed_by) == {"stratamq-remove"}
    storage.close()
    assert set(remover_threads()) <= set(others)
