"""Reading without waiting: what consumers that keep up get, and when the long way is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratamq.log import disk as disk_module
from stratamq.log.disk import RealDisk, RealFile, write_new
from stratamq.log.segment import AT_ONCE_BYTES
from stratamq.model.types import Offset
from tests.log.rig import Rig
from tests.log.support import FOLDER
from tests.waiting import every

ALL = 1 << 30


def test_a_reader_that_waits_at_the_end_gets_what_comes() -> None:
    rig = Rig.new().open()
    rig.commit(2, 1)
    for _ in range(20):
        end, segments = rig.log.end_offset, len(rig.log.segments())
        assert rig.log.read_at_once(end, ALL, end) is None
        rig.commit(1, 3)
        found = rig.log.read_at_once(end, ALL, rig.log.end_offset)
        if len(rig.log.segments()) == segments:  # what was sealed meanwhile is not in memory
            assert found == (rig.log.read(end, ALL, rig.log.end_offset), rig.log.end_offset)


def test_several_readers_may_be_at_different_places() -> None:
    rig = Rig.new().open()
    places = []
    for _ in range(4):
        places.append(rig.log.end_offset)
        rig.commit(1)
    end = rig.log.end_offset
    for place in every(places):
        assert rig.log.read_at_once(place, ALL, end) == (rig.log.read(place, ALL, end), end)


def test_limits_hold() -> None:
    rig = Rig.new().open()
    rig.commit(1, 1, 1)
    whole = rig.log.read(Offset(0), ALL, Offset(3))
    two, one = rig.log.read(Offset(0), ALL, Offset(2)), rig.log.read(Offset(0), 1, Offset(3))
    assert rig.log.read_at_once(Offset(0), ALL, Offset(2)) == (two, 2)
    assert rig.log.read_at_once(Offset(0), 1, Offset(3)) == (one, 1)
    assert len(rig.log.read(Offset(0), 1, Offset(3))) < len(whole)


def test_much_is_left_to_a_thread() -> None:
    rig = Rig.new().open()
    while rig.log.segments()[-1].size_bytes <= 500:
        rig.commit(1)
    assert rig.log.read_at_once(Offset(0), ALL, rig.log.end_offset)
    rig.log._segments.active.size += AT_ONCE_BYTES  # as if there were more
    assert rig.log.read_at_once(Offset(0), ALL, rig.log.end_offset) is None


def test_after_a_truncation_nobody_is_led_astray() -> None:
    rig = Rig.new().open()
    rig.commit(1, 1)
    rig.commit(2, 1)
    rig.truncate(2)
    rig.commit(1)
    rig.commit(1, 1)
    end = rig.log.end_offset
    for offset in every(range(end)):
        found = rig.log.read_at_once(Offset(offset), ALL, end)
        assert found in (None, (rig.log.read(Offset(offset), ALL, end), end))


def test_damage_is_left_to_those_who_can_tell() -> None:
    rig = Rig.new().open()
    rig.commit(1)
    (path,) = (found for found in rig.disk.files() if found.suffix == ".log")
    assert path.parent == FOLDER
    assert rig.log.read_at_once(Offset(0), ALL, Offset(1))
    rig.disk.damage(path, lambda content: content.__setitem__(80, content[80] ^ 1))
    assert rig.log.read_at_once(Offset(0), ALL, Offset(1)) is None


def test_a_real_file_gives_what_is_in_memory(tmp_path: Path) -> None:
    write_new(RealDisk(), tmp_path / "file", b"0123456789")
    file = RealDisk().open(tmp_path / "file")
    assert file.read_at_once(4, 3) == b"3456"
    assert file.read_at_once(4, 8) is None, "not all of it is there"


def test_without_the_system_call_everything_takes_the_long_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_new(RealDisk(), tmp_path / "file", b"0123456789")
    file = RealDisk().open(tmp_path / "file")
    assert isinstance(file, RealFile)
    monkeypatch.setattr(disk_module, "READ_AT_ONCE", 0)
    assert file.read_at_once(4, 3) is None
