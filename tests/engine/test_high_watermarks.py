"""The file of high watermarks: what damage may cost, and what it may not give."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratamq.engine.segment.high_watermarks import HighWatermarks
from stratamq.log.disk import RealDisk
from stratamq.model.types import Offset
from tests.engine.support import S, T
from tests.waiting import every


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "high-watermarks"


def opened(path: Path) -> tuple[HighWatermarks, dict[str, int]]:
    marks = HighWatermarks(RealDisk(), path)
    return marks, dict(marks.load())


def saved(path: Path, *steps: tuple[str, int]) -> None:
    marks, _ = opened(path)
    for name, mark in steps:
        marks.save({name: Offset(mark)}, lambda _: True)  # type: ignore[dict-item]


def flipped(path: Path, at: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def test_a_bit_anywhere_in_a_lowered_mark_never_brings_the_higher_one_back(path: Path) -> None:
    saved(path, (S, 1042), (S, 500))
    whole = path.read_bytes()
    line = whole.index(b"\n") + 1
    for at in every(range(line, len(whole))):
        for bit in range(8):
            path.write_bytes(whole)
            flipped(path, at, bit)
            assert opened(path)[1].get(S, 0) <= 500, (at, bit)


def test_marks_that_were_saved_after_the_damage_count(path: Path) -> None:
    saved(path, (S, 1), (T, 2), (S, 3), (T, 4))
    flipped(path, path.read_bytes().index(b"\n") + 20)
    assert opened(path)[1] == {S: 3, T: 4}


def test_a_save_after_damage_does_not_bring_older_marks_back(path: Path) -> None:
    saved(path, (S, 1042), (S, 500))
    flipped(path, -3)
    saved(path, (T, 7))
    assert opened(path)[1] == {T: 7}


def test_a_line_that_a_crash_has_torn_was_never_saved(path: Path) -> None:
    saved(path, (S, 1042), (S, 500))
    path.write_bytes(path.read_bytes()[:-9])
    assert opened(path)[1] == {S: 1042}
