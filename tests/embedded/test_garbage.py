"""Full collections of Python's garbage collector look at what is new, and still find garbage."""

from __future__ import annotations

import gc
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


async def test_young_cycles_are_freed_as_ever() -> None:
    with long_lived_frozen():
        dead = weakref.ref(cycle())
        gc.collect()
        assert dead() is None


async def test_old_cycles_are_freed_when_twice_as_much_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "FROZEN_MIN", 0)
    monkeypatch.setattr(garbage, "REVIEW_WAIT_S", 0.01)
    with long_lived_frozen():
        old = cycle()
        gc.collect()  # it is frozen with everything else
        dead = weakref.ref(old)
        del old
        gc.collect()
        assert dead() is not None, "nobody looks at it"
        kept = [[number] for number in range(2 * gc.get_freeze_count())]
        gc.collect()
        await until(lambda: dead() is None)
        assert kept


async def test_objects_that_come_at_once_have_one_review_and_that_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "FROZEN_MIN", 0)
    reviews: list[int] = []
    monkeypatch.setattr(garbage.Frozen, "review", lambda self: reviews.append(1))
    kept: list[object] = []
    with long_lived_frozen():
        for count in (2 * gc.get_freeze_count(), 10_000, 10_000):
            kept += [[number] for number in range(count)]
            gc.collect()
        await let_run()  # the loop hears of it
        let_pass(garbage.REVIEW_WAIT_S - 1)
        await let_run()
        assert not reviews, "nothing is stopped while they come"
        let_pass(2)
        await until(lambda: reviews)
        await let_run()
    assert reviews == [1]
