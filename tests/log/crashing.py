"""Running a scenario into a crash at every call, and what must hold of what is found then."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random

from stratamq.log.segment import NOT_ITS_FILE
from tests.log.rig import Rig
from tests.log.scenarios import Scenario
from tests.twins.disk import Call, Crash, Power, at_call
from tests.twins.kv import Loss

Fate = tuple[Power, Loss]

KILLED: Fate = (Power.KILLED, Loss.KILLED)
CUTS: tuple[Fate, ...] = tuple(
    (power, loss)
    for power in Power
    if power is not Power.KILLED
    for loss in Loss
    if loss is not Loss.KILLED
)
FATES: tuple[Fate, ...] = (KILLED, (Power.KILLED, Loss.WIPED), *CUTS)
DAMAGING = (Power.FLIPPED, Power.HOLES)


def by_chance(fate: Fate) -> bool:
    """Whether it can leave one thing or another."""
    settled = (Power.KILLED, Power.KEPT, Power.LOST)
    return fate[0] not in settled or fate[1] is Loss.SUFFIX


TORN_AGAIN = "deletions: cut what cannot be read"


def prepared(scenario: Scenario) -> Rig:
    rig = Rig.new()
    if scenario.name != "create":
        scenario.before(rig.open())
    return rig


def crashes(scenario: Scenario, written_part: float = 0.0) -> Iterator[tuple[Call, Rig]]:
    """The machine at each call of the scenario's second half, stopped before it. A write that is
    stopped gets `written_part` of its bytes to the file."""
    before = prepared(scenario)
    for number in count():
        rig = before.fork()
        if scenario.name != "create":
            rig.open()
        first = len(rig.disk.calls)
        rig.disk.written_part = written_part
        rig.disk.trouble = at_call(first + number, Crash())
        try:
            scenario.during(rig)
        except Crash:
            yield rig.disk.calls[-1], rig
        else:
            return


def survive(crashed: Rig, fate: Fate, rng: Random) -> None:
    """Find everything acknowledged and nothing invented; go on; find it again."""
    rig = crashed.after_crash(*fate, rng).open()
    if fate[0] in DAMAGING and any(NOT_ITS_FILE in line for line in rig.log.damage):
        # No CRC covers a base offset. Where the index is lost as well, a lone unsynced batch with
        # a flipped one could be another's file, and the offsets of a whole segment are left out.
        rig.ledger.check_kept(rig.log)
        return
    content = rig.ledger.check(rig.log)
    assert fate[0] in DAMAGING or not content.damaged, content.damaged
    rig.ledger.settle(content)
    rig.commit(2, 1)
    rig.append(4)
    go_on(rig, rng, clean=not content.damaged)


def go_on(rig: Rig, rng: Random, *, clean: bool) -> None:
    """A second stop, without any damage of its own."""
    fate = rng.choice((KILLED, (Power.KEPT, Loss.NOTHING), (Power.LOST, Loss.UNSYNCED)))
    again = rig.after_crash(*fate, rng).open()
    again.ledger.check(again.log)
    # A process that was killed between cutting a torn end and syncing the cut leaves it to the
    # power cut whether the torn end is back. It is cut again then, and said again.
    found = [line for line in again.log.damage if fate is KILLED or TORN_AGAIN not in line]
    assert not clean or not found
