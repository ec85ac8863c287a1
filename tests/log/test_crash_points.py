"""A crash at every file-system call and every index write of everything a log does.

Whatever the crash does to unsynced bytes, names and index rows: reopened, the log has every
acknowledged record at its offset, byte for byte, and none that nobody wrote.

The everyday run takes a few fates per call, some always the same and some new each time; the
failure message names the seed. The long run takes them all. A machine that checks every change
draws the same ones each time, so that a change is judged by what it changed.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.log.crashing import CUTS, FATES, KILLED, Fate, by_chance, crashes, survive
from tests.log.rig import Rig
from tests.log.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.usefixtures("dense_points")

SAMPLES = 3
FIXED_SEED = 20_240_117
SECOND_SEED = 352_631_481  # once found a truncation that a torn file list forgot


def fresh_seed() -> int:
    if os.environ.get("CI") == "true":
        return SECOND_SEED
    return int(os.environ.get("STRATAMQ_CRASH_SEED", "0")) or Random().randrange(1 << 32)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
@pytest.mark.parametrize("kind", ["fixed", "fresh"])
def test_every_call_survives_a_crash(scenario: Scenario, kind: str) -> None:
    seed = FIXED_SEED if kind == "fixed" else fresh_seed()
    rng = Random(f"{seed}:{scenario}")
    for call, crashed in crashes(scenario, written_part=rng.random()):
        for fate in (KILLED, *rng.sample(CUTS, SAMPLES)):
            check(crashed, fate, f"{seed}:{scenario}:{call}", scenario)


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_every_call_survives_every_crash(scenario: Scenario) -> None:
    """With chances of their own: the next run draws others."""
    seed = fresh_seed()
    for part in (0.0, 0.6, 1.0):
        for call, crashed in crashes(scenario, part):
            if part and call.kind != "write":
                continue  # only of a write there is a part
            for fate in FATES:
                for again in range(4 if by_chance(fate) else 2):
                    check(crashed, fate, f"{seed}:{call}:{part}:{again}", scenario)


def check(crashed: Rig, fate: Fate, seed: str, scenario: Scenario) -> None:
    try:
        survive(crashed, fate, Random(f"{seed}:{fate}"))
    except Exception as error:
        power, loss = fate
        raise AssertionError(
            f"{scenario}, stopped before {seed}\n disk: {power}\n index: {loss}\n {error!r}"
        ) from error
