"""After a failed fsync nobody knows what the disk holds: no write succeeds until it was read again
(law 6)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import pytest

from stratamq.log.shard_log import FileShardLog
from stratamq.model.errors import ShardPoisoned, StorageError
from stratamq.model.types import Offset
from tests.log.crashing import KILLED
from tests.log.rig import Rig
from tests.log.scenarios import SCENARIOS, Scenario
from tests.log.support import batches_from, read_log
from tests.twins.disk import Call, Power, Trouble, at_call, no_trouble
from tests.twins.kv import Loss
from tests.waiting import every

pytestmark = pytest.mark.usefixtures("dense_points")

ALL = [scenario for scenario in SCENARIOS if scenario.name != "create"]


def failing(number: int, kinds: tuple[str, ...], code: int) -> Trouble:
    def trouble(call: Call) -> OSError | None:
        if call.number == number and call.kind in kinds:
            return OSError(code, "the disk says no", str(call.path))
        return None

    return trouble


def failures(scenario: Scenario, kinds: tuple[str, ...], code: int) -> Iterator[Rig]:
    """The machine after one failed call of these kinds, at each in turn."""
    before = Rig.new()
    scenario.before(before.open())
    for number in count():
        rig = before.fork().open()
        first = len(rig.disk.calls)
        rig.disk.trouble = failing(first + number, kinds, code)
        try:
            scenario.during(rig)
        except ShardPoisoned:
            rig.disk.trouble = no_trouble
            yield rig
        if len(rig.disk.calls) <= first + number:
            return


WRITES: dict[str, Callable[[FileShardLog], None]] = {
    "append": lambda log: log.append(batches_from(log.end_offset, (1,))),
    "sync": FileShardLog.sync,
    "roll": FileShardLog.roll,
    "truncate": lambda log: log.truncate(log.start_offset),
    "trim": lambda log: log.trim(Offset(log.start_offset + 1)),
    "trim all": lambda log: log.trim(log.end_offset),
    "restart": lambda log: log.restart(Offset(99)),
    "delete": lambda log: log.delete([log.start_offset]),
    "rewrite": lambda log: log.rewrite(log.segments()[0].base_offset, lambda header, data: None),
}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_failed_fsync_of_data_poisons(code: int) -> None:
    rig = Rig.new().open()
    rig.commit(3, 2)
    rig.roll()
    rig.commit(2)
    rig.append(1)
    rig.disk.trouble = failing(len(rig.disk.calls), ("sync",), code)
    with pytest.raises(ShardPoisoned, match="fsync"):
        rig.log.sync()
    for name, write in WRITES.items():
        before = rig.disk.calls[:]
        with pytest.raises(ShardPoisoned):
            write(rig.log)
        assert rig.disk.calls == before, f"{name} touched the disk of a poisoned shard"
    assert len(read_log(rig.log).batches) == 4, "reads still work"
    rig.log.close()


def test_a_full_disk_that_shows_only_at_the_fsync_of_a_roll_poisons() -> None:
    """The kernel took the bytes and could not place them: they are lost, not refused."""
    rig = Rig.new().open()
    rig.commit(3)
    rig.append(1)
    rig.disk.trouble = failing(len(rig.disk.calls), ("sync",), errno.ENOSPC)
    with pytest.raises(ShardPoisoned):
        rig.roll()


@pytest.mark.parametrize("scenario", ALL, ids=str)
def test_any_failed_sync_poisons_and_reopening_heals(scenario: Scenario) -> None:
    """Whatever is readable after reopening is durable, also what the failed fsync was about: its
    pages count as clean, and only writing them again brings them to the disk."""
    poisoned = list(failures(scenario, ("sync", "sync_folder"), errno.EIO))
    assert poisoned
    for rig in poisoned:
        with pytest.raises(ShardPoisoned):
            rig.append(1)
        assert not read_log(rig.log).damaged
        healed = rig.after_crash(*KILLED, Random(0)).open()
        healed.ledger.settle(healed.ledger.check(healed.log))
        healed.commit(2)
        for loss in (Loss.NOTHING, Loss.UNSYNCED, Loss.WIPED):
            again = healed.after_crash(Power.LOST, loss, Random(0)).open()
            again.ledger.check(again.log)


@pytest.mark.parametrize("scenario", ALL, ids=str)
def test_any_other_failure_poisons_and_reopening_heals(scenario: Scenario) -> None:
    kinds = ("write", "rename", "truncate", "unlink", "create")
    for rig in every(failures(scenario, kinds, errno.EIO)):
        with pytest.raises(ShardPoisoned):
            rig.append(1)
        assert not read_log(rig.log).damaged
        healed = rig.after_crash(*KILLED, Random(0)).open()
        healed.ledger.settle(healed.ledger.check(healed.log))
        healed.commit(2)
        again = healed.after_crash(Power.LOST, Loss.UNSYNCED, Random(0)).open()
        again.ledger.check(again.log)


@pytest.mark.parametrize("scenario", ALL, ids=str)
def test_an_index_that_cannot_be_written_poisons(scenario: Scenario) -> None:
    """Rows that were handed out and not written would be missing for ever."""
    before = Rig.new()
    scenario.before(before.open())
    for number in count():
        rig = before.fork().open()
        first = len(rig.disk.calls)
        rig.disk.trouble = index_failing(first + number)
        try:
            scenario.during(rig)
        except ShardPoisoned:
            healed = rig.after_crash(*KILLED, Random(0)).open()
            healed.ledger.check(healed.log)
        if len(rig.disk.calls) <= first + number:
            return


def index_failing(number: int) -> Trouble:
    def trouble(call: Call) -> StorageError | None:
        failing = call.number == number and call.kind.startswith("kv")
        return StorageError("the index store failed") if failing else None

    return trouble


def test_a_shard_that_cannot_be_opened_says_why() -> None:
    rig = Rig.new()
    rig.disk.trouble = at_call(len(rig.disk.calls) + 2, OSError(errno.EIO, "the disk says no"))
    with pytest.raises(StorageError, match="the disk says no"):
        rig.open()


def test_a_shard_that_cannot_be_deleted_says_why() -> None:
    rig = Rig.new().open()
    rig.commit(3)
    rig.disk.trouble = failing(len(rig.disk.calls), ("rename",), errno.EIO)
    with pytest.raises(StorageError, match="the disk says no"):
        rig.log.destroy()
    rig.disk.trouble = no_trouble
    rig.log.destroy()
    assert not rig.disk.files()


def test_a_read_error_is_a_storage_error() -> None:
    rig = Rig.new().open()
    rig.commit(3)
    rig.disk.read_trouble = lambda path: OSError(errno.EIO, "the disk says no", str(path))
    with pytest.raises(StorageError, match="the disk says no"):
        rig.log.read(Offset(0), 1000, Offset(3))
    rig.disk.read_trouble = lambda path: None
    assert rig.log.read(Offset(0), 1000, Offset(3))
