"""Recovery is cut off too: at each of its own calls, and recovered from."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from stratamq.log import names
from stratamq.log.index import IndexStore
from tests.log.crashing import CUTS, DAMAGING, FATES, Fate, crashes, survive
from tests.log.rig import Rig
from tests.log.scenarios import SCENARIOS, Scenario
from tests.log.support import DATA, FOLDER, NAME
from tests.log.test_crash_points import FIXED_SEED, fresh_seed
from tests.twins.disk import Crash, Power, at_call
from tests.twins.kv import Loss

pytestmark = pytest.mark.usefixtures("dense_points")

BUSY = (Power.LOST, Power.TORN, Power.PREFIX, Power.KEPT)

FIRST = [fate for fate in CUTS if fate[0] in BUSY]
SECOND = [fate for fate in FATES if fate[0] not in DAMAGING]
"""Not with flipped bits: recovery puts bytes into the file again that may be the only copy of what
was acknowledged, and a disk that turns them into others takes them from anyone."""


def recoveries_cut_off(crashed: Rig, fate: Fate, rng: Random) -> list[Rig]:
    """The machine after the first crash, stopped again before each call of its recovery."""
    stopped: list[Rig] = []
    for number in count():
        rig = crashed.after_crash(*fate, Random(rng.random()))
        rig.disk.trouble = at_call(number, Crash())
        rig.disk.written_part = rng.random()
        try:
            rig.open()
        except Crash:
            stopped.append(rig)
        else:
            return stopped
    raise AssertionError("unreachable")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
@pytest.mark.parametrize("kind", ["fixed", "fresh"])
def test_recovery_survives_a_crash_at_each_of_its_calls(scenario: Scenario, kind: str) -> None:
    seed = FIXED_SEED if kind == "fixed" else fresh_seed()
    rng = Random(f"{seed}:{scenario}")
    points = list(crashes(scenario, written_part=0.6))
    for call, crashed in rng.sample(points, min(5, len(points))):
        first = rng.choice(FIRST)
        for number, stopped in enumerate(recoveries_cut_off(crashed, first, rng)):
            fate = rng.choice(SECOND)
            where = f"{seed}:{call}, then {first}, then {number}:{fate}"
            try:
                survive(stopped, fate, Random(where))
            except Exception as error:
                raise AssertionError(f"{scenario}, stopped before {where}: {error!r}") from error


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_recovery_survives_every_crash_at_each_of_its_calls(scenario: Scenario) -> None:
    seed = fresh_seed()
    rng = Random(seed)
    for call, crashed in crashes(scenario, written_part=0.6):
        for first in rng.sample(FIRST, 4):
            for number, stopped in enumerate(recoveries_cut_off(crashed, first, rng)):
                for fate in rng.sample(SECOND, 4):
                    where = f"{seed}:{call}, then {first}, then {number}:{fate}"
                    try:
                        survive(stopped, fate, Random(where))
                    except Exception as error:
                        text = f"{scenario}, stopped before {where}: {error!r}"
                        raise AssertionError(text) from error


# -- destroying a shard --------------------------------------------------------------------------


def start_again(rig: Rig) -> bool:
    """What a node does when it starts: finish what was under way. Whether the shard is there."""
    for name in rig.disk.names(DATA):
        if name.endswith(names.GONE):
            rig.disk.remove_folder(DATA / name)
    there = rig.disk.exists(FOLDER)
    if not there:
        IndexStore(rig.kv).drop(NAME)  # as those of every name that no shard has
    return there


def test_a_shard_is_there_or_gone_whenever_its_deletion_is_cut_off() -> None:
    built = Rig.new().open()
    built.commit(3, 1)
    built.roll()
    built.commit(2)
    built.delete(1)
    outcomes = set()
    for number in count():
        rig = built.fork().open()
        first = len(rig.disk.calls)
        rig.disk.trouble = at_call(first + number, Crash())
        try:
            rig.log.destroy()
        except Crash:
            pass
        else:
            break
        for power, loss in FATES:
            found = rig.after_crash(power, loss, Random(number))
            there = start_again(found)
            outcomes.add(there)
            if there:
                found.open().ledger.check(found.log)
            else:
                check_gone(found)
    assert outcomes == {True, False}


def test_a_deleted_shard_leaves_nothing() -> None:
    rig = Rig.new().open()
    rig.commit(3)
    rig.delete(1)
    rig.log.destroy()
    check_gone(rig)
    check_gone(rig.after_crash(Power.LOST, Loss.UNSYNCED, Random(0)))


def check_gone(rig: Rig) -> None:
    assert not rig.disk.files()
    assert not rig.disk.names(DATA)
    assert not rig.kv.rows()
