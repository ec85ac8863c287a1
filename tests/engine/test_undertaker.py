"""Removed files are freed, soon and by somebody else, whatever comes first."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from stratamq.engine import undertaker as module
from stratamq.engine.undertaker import Undertaker
from stratamq.log.disk import RealDisk
from stratamq.log.freeing import STEP_BYTES


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


def test_a_removed_segment_is_let_go_of(tmp_path: Path) -> None:
    undertaker = Undertaker()
    disk, path = RealDisk(let_go=undertaker.take), tmp_path / "segment"
    removed(disk, path)
    ends = time.monotonic() + 30
    while held(path):
        assert time.monotonic() < ends, "nobody freed it"
        time.sleep(0.01)
    undertaker.close()


def test_closing_leaves_nothing_open(tmp_path: Path) -> None:
    undertaker = Undertaker()
    disk = RealDisk(let_go=undertaker.take)
    paths = [tmp_path / f"{number}" for number in range(20)]
    for path in paths:
        removed(disk, path)
    undertaker.close()
    assert not any(map(held, paths))


def test_files_are_not_hoarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 2)

    def slow(fd: int) -> None:
        time.sleep(0.5)
        os.close(fd)

    monkeypatch.setattr(module, "free", slow)
    undertaker = Undertaker()
    disk = RealDisk(let_go=undertaker.take)
    paths = [tmp_path / f"{number}" for number in range(9)]
    for path in paths:
        removed(disk, path)
    assert sum(map(held, paths)) <= 3
    undertaker.close()


def test_a_folder_goes_the_same_way(tmp_path: Path) -> None:
    given: list[int] = []
    disk, folder = RealDisk(let_go=given.append), tmp_path / "shard.gone"
    folder.mkdir()
    (folder / "segment").write_bytes(bytes(2 * STEP_BYTES))
    (folder / "spec").write_bytes(b"{}")
    disk.remove_folder(folder)
    assert not folder.exists()
    assert len(given) == 1
    os.close(given[0])
