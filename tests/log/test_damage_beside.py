"""Damage in the files beside the log: sidecars, epochs, start offset, deletions.

What can be rebuilt is; what cannot is reported; no record is lost over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from stratamq.log import names
from stratamq.model.types import Offset, TimestampMs
from tests.log.crashing import KILLED
from tests.log.ledger import check_lookups
from tests.log.rig import Rig
from tests.log.support import FOLDER, cut_at, read_log
from tests.waiting import every

pytestmark = pytest.mark.usefixtures("dense_points")

INDEX = FOLDER / names.segment_file(Offset(0), names.OFFSET_INDEX)
TIME_INDEX = FOLDER / names.segment_file(Offset(0), names.TIME_INDEX)


def build() -> Rig:
    rig = Rig.new().open()
    rig.commit(3, 1, 2, 4, 1, 3, epoch=2)
    rig.commit(2, 5, epoch=4)
    rig.roll()
    rig.commit(3, 2, epoch=5)
    return rig


def reopened(built: Rig) -> Rig:
    return built.after_crash(*KILLED, Random(0))


def flips(rig: Rig, path: Path, bits: tuple[int, ...] = (3,)) -> Iterator[Rig]:
    """The machine with one bit flipped, in each byte of the file in turn."""
    for at in range(len(rig.disk.content(path))):
        for bit in bits:
            found = reopened(rig)
            found.disk.damage(path, flip(at, bit))
            yield found


def flip(at: int, bit: int) -> Callable[[bytearray], None]:
    def corrupt(content: bytearray) -> None:
        content[at] ^= 1 << bit

    return corrupt


def check_sound(rig: Rig, built: Rig) -> None:
    """Every offset by itself, in an order that no hint helps with; look-ups; segment facts."""
    assert rig.log.segments() == built.log.segments()
    end = rig.log.end_offset
    good = read_log(built.log).batches
    for offset in sorted(range(end), key=lambda offset: offset * 7 % end):
        data = rig.log.read(Offset(offset), 1, end)
        assert (data,) == tuple(
            data for header, data in good if header.base_offset <= offset <= header.last_offset
        )
    check_lookups(rig.log, read_log(rig.log))


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX], ids=["index", "timeindex"])
def test_a_flipped_bit_in_a_sidecar_changes_no_answer(path: Path) -> None:
    built = build()
    rigs = list(flips(built, path, bits=(1, 4, 5, 7)))
    assert len(rigs) > 20
    for rig in rigs:
        check_sound(rig.open(), built)


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX], ids=["index", "timeindex"])
def test_a_damaged_sidecar_is_not_handed_on_by_a_truncation(path: Path) -> None:
    """The segment becomes the active one, and its points go to the index store."""
    built = build()
    for rig in flips(built, path, bits=(0, 2, 4, 5, 6)):
        rig.open().truncate(10)
        rig.ledger.check(rig.log)
        rig.commit(2, 1)
        rig.ledger.check(rig.log)
        again = reopened(rig).open()
        again.ledger.check(again.log)


@pytest.mark.parametrize("path", [INDEX, TIME_INDEX], ids=["index", "timeindex"])
@pytest.mark.parametrize("size", [0, 1, 5, 13, -1])
def test_a_sidecar_that_was_cut_changes_no_answer(path: Path, size: int) -> None:
    built = build()
    whole = built.disk.content(path)
    rig = reopened(built)
    rig.disk.damage(path, cut_at(size))
    check_sound(rig.open(), built)
    if size:
        assert rig.disk.content(path) == whole, "an impossible size is repaired at once"


@pytest.mark.parametrize("gone", [(INDEX,), (TIME_INDEX,), (INDEX, TIME_INDEX)], ids=len)
def test_a_missing_sidecar_is_made_anew(gone: tuple[Path, ...]) -> None:
    built = build()
    before = {path: built.disk.content(path) for path in gone}
    rig = reopened(built)
    for path in gone:
        rig.disk.unlink(path)
    check_sound(rig.open(), built)
    assert {path: rig.disk.content(path) for path in gone} == before, "byte for byte"


def test_a_sidecar_full_of_nonsense_changes_no_answer() -> None:
    built, rng = build(), Random(4)

    def scribble(content: bytearray) -> None:
        content[:] = rng.randbytes(len(content))

    for _ in range(30):
        rig = reopened(built)
        for path in (INDEX, TIME_INDEX):
            rig.disk.damage(path, scribble)
        check_sound(rig.open(), built)


# -- epochs --------------------------------------------------------------------------------------

EPOCHS = FOLDER / names.EPOCHS


def test_a_missing_epoch_history_is_rebuilt_and_reported() -> None:
    built = build()
    rig = reopened(built)
    rig.disk.unlink(EPOCHS)
    rig.open()
    assert rig.log.epochs() == built.log.epochs()
    assert any(str(EPOCHS) in text for text in rig.log.damage)
    again = reopened(rig).open()
    assert again.log.epochs() == built.log.epochs()
    assert not again.log.damage


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"x\n3\n2 0\n4 14\n5 21\n",
        b"1\n3\n2 0\n4 14\n5 21\n",
        b"0\n4\n2 0\n4 14\n5 21\n",
        b"0\n3\n2 0\n4 14\n5 21",
        b"0\n3\n2 0\n4 14 1\n5 21\n",
        b"0\n3\n2 0\n4 -14\n5 21\n",
        b"0\n3\n4 0\n2 14\n5 21\n",
        b"0\n3\n2 0\n4 21\n5 14\n",
        b"0\n3\n 2 0\n4 14\n5 21\n",
        b"\xff\xfe\n",
        bytes(30),
    ],
)
def test_a_damaged_epoch_history_is_rebuilt_and_reported(content: bytes) -> None:
    built = build()
    rig = reopened(built)
    rig.disk.damage(EPOCHS, lambda stored: stored.__setitem__(slice(None), content))
    rig.open()
    assert rig.log.epochs() == built.log.epochs()
    assert any(str(EPOCHS) in text for text in rig.log.damage)
    assert rig.disk.content(EPOCHS) == built.disk.content(EPOCHS)


def test_a_log_that_was_trimmed_to_its_end_knows_its_last_epoch() -> None:
    built = build()
    built.trim(built.log.end_offset)
    assert [entry.epoch for entry in built.log.epochs()] == [5]
    assert reopened(built).open().log.epochs() == built.log.epochs()


def test_a_log_without_epochs_needs_no_history() -> None:
    rig = Rig.new().open()
    rig.commit(2, epoch=-1)
    assert not rig.disk.exists(EPOCHS)
    again = reopened(rig).open()
    assert again.log.epochs() == ()
    assert not again.log.damage


# -- start offset --------------------------------------------------------------------------------

START = FOLDER / names.START_OFFSET


def test_no_flipped_bit_moves_the_start_of_a_log_far() -> None:
    """It falls back to the first segment: trimmed records may be seen again, none are lost."""
    built = build()
    built.trim(7)
    for rig in every(flips(built, START)):
        rig.open()
        assert rig.log.start_offset == 0
        assert rig.log.end_offset == built.log.end_offset
        assert len(rig.log.segments()) == len(built.log.segments())
        assert any(str(START) in text for text in rig.log.damage)


def test_without_its_file_a_log_begins_with_its_first_segment() -> None:
    built = build()
    built.trim(22)
    rig = reopened(built)
    rig.disk.unlink(START)
    rig.open()
    assert rig.log.start_offset == 21
    assert len(read_log(rig.log).batches) == 2


# -- deletions -----------------------------------------------------------------------------------

DELETIONS = FOLDER / names.DELETIONS


def test_a_damaged_deletion_is_reported_and_the_others_hold() -> None:
    built = build()
    frames = ((1,), (3, 4, 5), (8,), (10, 12))
    for frame in frames:
        built.delete(*frame)
    ends = [0, 16, 48, 64, 88]
    assert len(built.disk.content(DELETIONS)) == ends[-1]
    for at, rig in enumerate(flips(built, DELETIONS)):
        rig.open()
        hit = next(number for number, end in enumerate(ends) if at < end) - 1
        held = {offset for number, frame in enumerate(frames) if number != hit for offset in frame}
        assert set(rig.log.deleted()) == held
        assert any(
            f"{DELETIONS}" in text and f"byte {ends[hit]}" in text for text in rig.log.damage
        )
        rig.delete(2)
        again = reopened(rig).open()
        assert set(again.log.deleted()) == held | {2}


def test_deletions_that_are_gone_are_gone_and_nothing_else() -> None:
    built = build()
    built.delete(4)
    rig = reopened(built)
    rig.disk.unlink(DELETIONS)
    rig.open()
    assert not rig.log.deleted()
    assert len(read_log(rig.log).batches) == 10


def test_retention_is_not_misled_by_a_damaged_time_index() -> None:
    """The largest timestamp decides what is deleted."""
    built = build()
    youngest = built.log.segments()[0].max_timestamp
    for rig in every(flips(built, TIME_INDEX)):
        assert rig.open().log.segments()[0].max_timestamp == youngest
        assert rig.log.floor_by_timestamp(TimestampMs(youngest)) < 21
