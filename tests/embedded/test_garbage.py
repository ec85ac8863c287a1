"""Full collections of Python's garbage collector look at what is new, and still find garbage."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

from stratamq.node import garbage
from stratamq.node.garbage import long_lived_frozen
from tests.waiting import let_pass, let_run, until


class Link:
    other: Link


def cycle() -> Link:
    one, two = Link(), Link()
    one.other, two.other = two, one
    return one


async def test_what_survives_a_full_collection_is_not_looked_at_again() -> None:
    with long_lived_frozen():
        before = gc.get_freeze_count()
        kept = [[number] for number in range(10_000)]
        gc.collect()
        assert gc.get_freeze_count() - before >= len(kept)
        assert len(gc.get_objects()) < 5_000
    assert gc.get_freeze_count() == 0


async def test_what_survives_two_collections_is_not_looked_at_by_a_third() -> None:
    with long_lived_frozen():
        before = gc.get_freeze_count()
        kept = [[number] for number in range(10_000)]
        gc.collect(0)
        gc.collect(1)
        assert gc.get_freeze_count() - before >= len(kept)
        assert len(gc.get_objects()) < 5_000


async def test_young_cycles_are_freed_as_ever() -> None:
    with long_lived_frozen():
        dead = weakref.ref(cycle())
        gc.collect()
        assert dead() is None


async def test_old_cycles_are_freed_when_twice_as_much_is_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "BLOCKS_MIN", 0)
    with long_lived_frozen():
        old = cycle()
        gc.collect()  # it is frozen with everything else
        dead = weakref.ref(old)
        del old
        gc.collect()
        let_pass(2 * garbage.REVIEW_PAUSE_S)
        await let_run()
        assert dead() is not None, "nobody looks at it"
        kept = [[number] for number in range(sys.getallocatedblocks())]
        gc.collect()
        assert dead() is not None
        let_pass(2 * garbage.REVIEW_PAUSE_S)
        await until(lambda: dead() is None)
        assert kept


async def test_objects_that_come_at_once_have_one_review(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "BLOCKS_MIN", 0)
    collections: list[int] = []
    with long_lived_frozen() as frozen:
        kept = [[number] for number in range(2 * sys.getallocatedblocks())]
        review = frozen.review
        monkeypatch.setattr(frozen, "review", lambda: (collections.append(1), review()))
        for _ in range(3):
            let_pass(2 * garbage.REVIEW_PAUSE_S)
            await let_run()
        assert kept
    assert collections == [1]
