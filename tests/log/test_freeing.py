"""Whoever still reads a file that was removed reads all of it."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from stratamq.log.freeing import STEP_BYTES, free, hold, remove_file, remove_tree

SIZE = 3 * STEP_BYTES + 17


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "segment.log"
    path.write_bytes(os.urandom(SIZE))
    return path


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """To which files are shortened."""
    found: list[int] = []
    shorten = os.ftruncate

    def spy(fd: int, length: int) -> None:
        found.append(length)
        shorten(fd, length)

    monkeypatch.setattr(os, "ftruncate", spy)
    return found


def test_a_file_goes_step_by_step(file: Path, lengths: list[int]) -> None:
    remove_file(file)
    assert not file.exists()
    assert lengths == [2 * STEP_BYTES + 17, STEP_BYTES + 17, 17]


def test_a_reader_reads_on(file: Path, lengths: list[int]) -> None:
    wanted = file.read_bytes()
    with file.open("rb") as reader:
        remove_file(file)
        assert reader.read() == wanted
    assert lengths == []


def test_a_mapping_keeps_its_bytes(file: Path, lengths: list[int]) -> None:
    wanted = file.read_bytes()
    with file.open("rb") as reader:
        content = mmap.mmap(reader.fileno(), 0, prot=mmap.PROT_READ)
    remove_file(file)
    assert content[:] == wanted
    assert lengths == []
    content.close()


def test_another_name_keeps_its_file(file: Path, lengths: list[int]) -> None:
    wanted = file.read_bytes()
    other = file.with_name("exported.log")
    os.link(file, other)
    remove_file(file)
    assert other.read_bytes() == wanted
    assert lengths == []


def test_what_was_not_removed_stays(file: Path, lengths: list[int]) -> None:
    held = hold(file)
    assert held is not None
    free(held)
    assert file.stat().st_size == SIZE
    assert lengths == []


def test_what_is_small_or_missing_or_a_link(file: Path, lengths: list[int]) -> None:
    small, link = file.with_name("small"), file.with_name("link")
    small.write_bytes(b"x")
    link.symlink_to(file)
    for path in (small, link, file.with_name("missing")):
        remove_file(path)
        assert not path.is_symlink()
        assert not path.exists()
    assert file.stat().st_size == SIZE
    assert lengths == []


def test_a_tree_goes_with_all_below(file: Path, lengths: list[int]) -> None:
    folder = file.parent / "folder"
    (folder / "below").mkdir(parents=True)
    file.rename(folder / "below" / "segment.log")
    (folder / "link").symlink_to(file.parent)
    remove_tree(folder)
    assert not folder.exists()
    assert len(lengths) == 3
    remove_tree(folder)
