"""What is kept here, and what is still known of that which is not."""

from __future__ import annotations

import pytest

from stratamq.log import names
from stratamq.model.errors import OffsetOutOfRange
from stratamq.model.types import Offset
from tests.log.rig import Rig
from tests.log.support import FOLDER, read_log
from tests.twins.disk import SimDisk


def three_segments() -> Rig:
    """0..5, 6..11 and, active, 12..15."""
    rig = Rig.new().open()
    rig.commit(3, 3, epoch=1)
    rig.roll()
    rig.commit(3, 3, epoch=2)
    rig.roll()
    rig.commit(2, 2, epoch=3)
    return rig


def bases(rig: Rig) -> list[int]:
    return [header.base_offset for header, _ in read_log(rig.log).batches]


def flip(disk: SimDisk, name: str) -> None:
    path = FOLDER / name
    data = disk.open(path).read(100, 0)
    disk.open(path).write([b"9" + data[1:]], 0)


def test_files_go_and_knowledge_stays() -> None:
    rig = three_segments()
    rig.delete(1, 7)
    before = rig.log.epochs()
    rig.offload(6)
    assert rig.log.start_offset == 0
    assert rig.log.local_start == 6
    assert bases(rig) == [6, 9, 12, 14]
    assert rig.log.epochs() == before
    assert set(rig.log.deleted()) == {1, 7}
    assert not any(name.startswith("0" * 20) for name in rig.disk.names(FOLDER))
    again = rig.fork().open()
    assert (again.log.start_offset, again.log.local_start) == (0, 6)
    assert again.log.epochs() == before
    assert set(again.log.deleted()) == {1, 7}
    assert not again.log.damage


@pytest.mark.parametrize(("end", "left"), [(5, 0), (6, 6), (11, 6), (12, 12), (1000, 12)])
def test_only_whole_sealed_segments_go(end: int, left: int) -> None:
    rig = three_segments()
    rig.log.offload(Offset(end))
    assert rig.log.local_start == left
    rig.log.offload(Offset(end))
    assert bases(rig) == [base for base in (0, 3, 6, 9, 12, 14) if base >= left]


def test_what_was_offloaded_cannot_be_cut() -> None:
    rig = three_segments()
    rig.offload(6)
    with pytest.raises(OffsetOutOfRange) as refused:
        rig.log.truncate(Offset(5))
    assert (refused.value.offset, refused.value.start) == (5, 6)
    assert bases(rig) == [6, 9, 12, 14]
    again = rig.fork().open()
    with pytest.raises(OffsetOutOfRange):
        again.log.truncate(Offset(0))
    again.truncate(6)
    assert (again.log.start_offset, again.log.end_offset) == (0, 6)


def test_a_damaged_start_gives_nothing_up() -> None:
    rig = three_segments()
    rig.trim(2)
    rig.offload(12)
    flip(rig.disk, names.START_OFFSET)
    again = rig.fork().open()
    assert (again.log.start_offset, again.log.local_start) == (2, 12)
    assert any(names.START_OFFSET in text for text in again.log.damage)


def test_a_damaged_local_start_is_where_segments_begin() -> None:
    rig = three_segments()
    rig.offload(6)
    flip(rig.disk, names.LOCAL_START)
    again = rig.fork().open()
    assert (again.log.start_offset, again.log.local_start) == (0, 6)
    assert bases(again) == [6, 9, 12, 14]
    assert any(names.LOCAL_START in text for text in again.log.damage)


def test_a_sealed_segment_is_three_files() -> None:
    rig = three_segments()
    assert [path.suffix for path in rig.log.files_of(Offset(6))] == [".log", ".index", ".timeindex"]
    assert rig.log.files_of(Offset(12)) == ()
    assert rig.log.files_of(Offset(3)) == ()
