"""A full disk: a clear error, the store as it was, and room makes it writable again (law 7)."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import count
from random import Random

import pytest

from stratamq.model.errors import DiskFull
from tests.log.crashing import KILLED
from tests.log.rig import Rig
from tests.log.scenarios import SCENARIOS, Scenario
from tests.log.support import cut_at, read_log
from tests.twins.disk import Call, Power, Trouble, no_trouble
from tests.twins.kv import Loss

pytestmark = pytest.mark.usefixtures("dense_points")

WRITERS = [
    scenario
    for scenario in SCENARIOS
    if scenario.name
    in (
        "append",
        "append over several segments",
        "roll",
        "index before sync",
        "new epochs",
    )
]
TAKES_ROOM = ("create", "write", "rename")


def full_at(number: int) -> Trouble:
    def trouble(call: Call) -> OSError | None:
        if call.number == number and call.kind in TAKES_ROOM:
            return OSError(errno.ENOSPC, "no space left", str(call.path))
        return None

    return trouble


def full_disks(scenario: Scenario, written_part: float) -> Iterator[Rig]:
    """The machine after a disk that was full at one call of the scenario, at each in turn."""
    before = Rig.new()
    scenario.before(before.open())
    for number in count():
        rig = before.fork().open()
        first = len(rig.disk.calls)
        rig.disk.written_part = written_part
        rig.disk.trouble = full_at(first + number)
        try:
            scenario.during(rig)
        except DiskFull:
            rig.disk.trouble = no_trouble
            yield rig
        if len(rig.disk.calls) <= first + number:
            return


def goes_on(rig: Rig) -> None:
    """Nothing of the refused call is there, everything else is, and the next calls succeed."""
    assert all(entry.start_offset < rig.log.end_offset for entry in rig.log.epochs())
    rig.ack()
    rig.ledger.forget_refused()
    rig.ledger.settle(rig.ledger.check(rig.log))
    rig.commit(2, 1)
    rig.roll()
    rig.commit(9, 9, epoch=20)
    rig.append(1)
    for fate in (KILLED, (Power.LOST, Loss.UNSYNCED), (Power.LOST, Loss.NOTHING)):
        again = rig.after_crash(*fate, Random(0)).open()
        again.ledger.check(again.log)
        assert not again.log.damage


@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("scenario", WRITERS, ids=str)
def test_every_call_that_takes_room_may_find_none(scenario: Scenario, part: float) -> None:
    rigs = list(full_disks(scenario, part))
    assert len(rigs) > 3
    for rig in rigs:
        goes_on(rig)


@pytest.mark.parametrize("scenario", WRITERS, ids=str)
def test_a_disk_may_fill_up_at_any_byte(scenario: Scenario) -> None:
    before = Rig.new()
    scenario.before(before.open())
    refused = 0
    for room in count(0, 41):
        rig = before.fork().open()
        rig.disk.capacity_bytes = rig.disk.used_bytes() + room
        try:
            scenario.during(rig)
        except DiskFull:
            refused += 1
        else:
            break
        rig.disk.capacity_bytes = None
        goes_on(rig)
    assert refused > 5


def test_a_trim_makes_room_on_a_full_disk() -> None:
    rig = Rig.new().open()
    for _ in range(3):
        rig.commit(6)
        rig.roll()
    rig.disk.capacity_bytes = rig.disk.used_bytes()
    with pytest.raises(DiskFull):
        rig.append(1)
    rig.trim(12)
    assert rig.log.start_offset == 12
    rig.commit(1)
    rig.disk.capacity_bytes = None
    again = rig.after_crash(Power.LOST, Loss.UNSYNCED, Random(0)).open()
    again.ledger.check(again.log)


def test_a_rewrite_that_finds_no_room_changes_nothing() -> None:
    rig = Rig.new().open()
    rig.commit(6, 6)
    rig.roll()
    rig.commit(3)
    before, used = read_log(rig.log), rig.disk.used_bytes()
    refused = 0
    for room in count(0, 29):
        rig.disk.capacity_bytes = used + room
        ledger = rig.ledger.copy()
        try:
            rig.rewrite(0, lambda offset: offset == 3)
        except DiskFull:
            refused += 1
        else:
            break
        rig.ledger = ledger
        assert read_log(rig.log) == before
        rig.ledger.check(rig.log)
    assert refused > 5
    rig.ledger.check(rig.log)


def test_a_deletion_that_finds_no_room_is_refused_and_can_be_repeated() -> None:
    rig = Rig.new().open()
    rig.commit(6)
    rig.disk.capacity_bytes = rig.disk.used_bytes() + 9
    with pytest.raises(DiskFull):
        rig.delete(2, 3, 4)
    assert not rig.log.deleted()
    rig.disk.capacity_bytes = None
    rig.ledger.deleted_maybe.clear()
    rig.delete(3)
    again = rig.after_crash(Power.KEPT, Loss.NOTHING, Random(0)).open()
    assert set(again.log.deleted()) == {3}


def test_a_log_that_finds_no_room_to_recover_says_so() -> None:
    rig = Rig.new().open()
    rig.commit(2)
    rig.append(3)
    torn = rig.after_crash(Power.KEPT, Loss.NOTHING, Random(0))
    torn.disk.damage(rig.disk.files()[0], cut_at(-9))
    torn.disk.capacity_bytes = torn.disk.used_bytes()
    with pytest.raises(DiskFull, match="No space"):
        torn.open()
    torn.disk.capacity_bytes = None
    torn.open().ledger.check(torn.log)


def test_an_epoch_whose_first_batch_found_no_space_is_forgotten() -> None:
    """Its start was saved already. Left there, it would claim the next batch of the old epoch."""
    rig = Rig.new().open()
    rig.commit(2, epoch=0)

    def full(call: Call) -> OSError | None:
        is_log = call.kind == "write" and call.path.suffix == ".log"
        return OSError(errno.ENOSPC, "no space left", str(call.path)) if is_log else None

    rig.disk.trouble = full
    with pytest.raises(DiskFull):
        rig.append(1, epoch=5)
    rig.disk.trouble = no_trouble
    rig.commit(1, epoch=0)
    again = rig.after_crash(*KILLED, Random(0)).open()
    assert again.log.epochs() == rig.log.epochs() == ((0, 0),)
    assert [header.leader_epoch for header, _ in read_log(again.log).batches] == [0, 0]
