"""One node on an honest disk, whatever else fails: nothing acknowledged is lost, doubled, reordered
or changed, and transactions are whole. A failure names its seed; `run_node(seed, log=[])` does the
same again, with every step in the list."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.runs import run_node

SEEDS_PER_TEST = 8


def check(seeds: range) -> None:
    for seed in seeds:
        result = run_node(seed)
        assert not result.faults, f"seed {seed}: {result.faults}"
        assert result.acknowledged, f"seed {seed} did nothing"


@pytest.mark.parametrize("first", range(0, 64, SEEDS_PER_TEST))
def test_nothing_acknowledged_is_lost(first: int) -> None:
    check(range(first, first + SEEDS_PER_TEST))


@pytest.mark.long
@pytest.mark.parametrize("first", range(1_000, 6_000, 500))
def test_nothing_acknowledged_is_lost_in_many_runs(first: int) -> None:
    check(range(first, first + 500))


@pytest.mark.parametrize(
    "config", [{"flush": "os"}, {"storage.type": "EngineMemory"}], ids=lambda config: str(config)
)
def test_a_node_that_does_not_sync_is_found_out(config: dict[str, str]) -> None:
    """The checks can fail: what is not synced does not survive a power cut."""
    found = {
        fault.partition(":")[0]
        for seed in range(8)
        for fault in run_node(seed, configs=[config]).faults
    }
    assert "lost" in found


def digests(hash_seed: str) -> str:
    """Of some runs, in a process with this seed for the hashes of strings."""
    program = "from tests.simulation.runs import run_node\n" + (
        "print([run_node(seed).digest for seed in (3, 7, 11)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_same_seed_does_the_same_in_every_process() -> None:
    one = digests("1")
    assert one == digests("2")
    assert len(set(one.split())) == 3
