"""The behaviour suite once more, over shards whose sealed segments are all on object storage.

Left out is what changes segments or looks at their place, and what only a reopened engine can tell.
`test_tiering` has that."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.model.clock import ManualClock
from tests.engine.behaviour import (
    test_deletes,
    test_hidden_tail,
    test_lookups,
    test_reads,
    test_subscribe,
    test_transactions,
    test_ttl,
    test_writes,
)
from tests.engine.conftest import LIMITS
from tests.engine.memory_history import TieredSegments

MODULES = (
    test_deletes,
    test_hidden_tail,
    test_lookups,
    test_reads,
    test_subscribe,
    test_transactions,
    test_ttl,
    test_writes,
)


@pytest.fixture
async def engine(tmp_path: Path, clock: ManualClock) -> AsyncIterator[StorageEngine]:
    tiered = TieredSegments(tmp_path, clock=clock, limits=LIMITS)
    await tiered.open()
    yield tiered
    await tiered.close()


CHANGES = (".compact(", ".truncate(", ".apply_retention(", ".segments(")


def _tests(module: ModuleType) -> Iterator[tuple[str, object]]:
    of = module.__name__.rpartition("_")[2]
    for name, found in vars(module).items():
        if not name.startswith("test_") or "engine" not in inspect.signature(found).parameters:
            continue
        if not any(word in inspect.getsource(found) for word in CHANGES):
            yield f"{name}_in_{of}", found


for _module in MODULES:
    globals().update(_tests(_module))


def test_this_is_most_of_the_suite() -> None:
    assert sum(1 for name in globals() if name.startswith("test_")) > 90
