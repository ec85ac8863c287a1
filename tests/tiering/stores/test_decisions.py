"""What is decided without a store: when to try again, where a list goes on, what a part is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.errors import CorruptObject, ObjectNotFound, StoreUnavailable
from stratamq.tiering.stores import walk
from stratamq.tiering.stores.attempts import SLOW_BYTES_PER_S, Deadline, Retrier, RetryPolicy
from stratamq.tiering.stores.sums import MIB, Sums, windows
from stratamq.tiering.stores.upload import part_bytes

POLICY = RetryPolicy(attempts_max=5, backoff_ms=100, backoff_ms_max=500, retry_ms_max=60_000)


class Attempts:
    """Fails in the given ways, then succeeds; its clock moves only when somebody sleeps."""

    def __init__(self, *failures: Exception, each_s: float = 0) -> None:
        self._failures, self._each_s = list(failures), each_s
        self.made, self.now, self.slept = 0, 0.0, list[float]()

    async def __call__(self) -> str:
        self.made += 1
        self.now += self._each_s
        if self._failures:
            raise self._failures.pop(0)
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def retrier(self, policy: RetryPolicy = POLICY, chance: float = 1.0) -> Retrier:
        return Retrier(policy, now=lambda: self.now, sleep=self.sleep, chance=lambda: chance)


async def test_passing_failures_are_tried_again_with_growing_waits() -> None:
    attempts = Attempts(*[StoreUnavailable()] * 3, CorruptObject())
    retrier = attempts.retrier()
    assert await retrier.run(attempts) == "done"
    assert attempts.slept == [0.1, 0.2, 0.4, 0.5]
    assert retrier.retries == 4


async def test_the_last_failure_is_the_answer() -> None:
    attempts = Attempts(*[StoreUnavailable()] * 4, CorruptObject(), StoreUnavailable())
    with pytest.raises(CorruptObject):
        await attempts.retrier().run(attempts)
    assert attempts.made == POLICY.attempts_max


async def test_what_does_not_pass_is_not_tried_again() -> None:
    attempts = Attempts(ObjectNotFound())
    with pytest.raises(ObjectNotFound):
        await attempts.retrier().run(attempts)
    assert attempts.made == 1


async def test_no_attempt_is_begun_after_the_time() -> None:
    attempts = Attempts(*[StoreUnavailable()] * 5, each_s=40)
    with pytest.raises(StoreUnavailable):
        await attempts.retrier().run(attempts)
    assert attempts.made == 2


@given(st.integers(1, 2000), st.floats(0, 1))
def test_waits_are_anywhere_below_their_ceiling(failures: int, chance: float) -> None:
    ceiling = POLICY.delay_s(failures, 1.0)
    assert ceiling == min(0.5, 0.1 * 2 ** min(failures - 1, 10))
    assert POLICY.delay_s(failures, chance) == pytest.approx(ceiling * chance)


def test_a_deadline_gives_bytes_their_time() -> None:
    now = [0.0]
    deadline = Deadline(1000, 2 * SLOW_BYTES_PER_S, now=lambda: now[0])
    now[0] = 2.9
    deadline.check()
    now[0] = 3.1
    with pytest.raises(StoreUnavailable):
        deadline.check()
    deadline.extend(1)
    deadline.check()


@given(st.integers(0, 40 * MIB), st.integers(0, 40 * MIB), st.sampled_from([None, 1, 8]))
def test_windows_follow_each_other(start: int, stop: int, blocks: int | None) -> None:
    sums = Sums(40 * MIB, blocks * MIB, 0, ()) if blocks else None
    found = list(windows(start, stop, sums, 4 * MIB))
    if start >= stop:
        assert found == []
        return
    ends = [end for _, end in found]
    assert [first for first, _ in found] == [start, *ends[:-1]]
    assert ends[-1] == stop
    assert all(end % ((blocks or 1) * MIB) == 0 for end in ends[:-1])


@pytest.mark.parametrize(
    ("wanted", "block", "part"),
    [(16 * MIB, MIB, 16 * MIB), (5 * MIB, 4 * MIB, 8 * MIB), (16 * MIB, 64 * MIB, 64 * MIB)],
)
def test_parts_are_whole_blocks(wanted: int, block: int, part: int) -> None:
    assert part_bytes(wanted, block) == part


NAMES = st.text("ab-/0", min_size=1, max_size=8).filter(
    lambda key: all(key.split("/")) and not key.startswith("/")
)


@given(st.sets(NAMES, max_size=12), st.text("ab-/0", max_size=4), NAMES, st.integers(1, 5))
def test_a_tree_is_listed_as_a_sorted_list_of_keys(
    keys: set[str], prefix: str, after: str, limit: int
) -> None:
    files = {key for key in keys if not any(other.startswith(f"{key}/") for other in keys)}

    def folder(name: str) -> list[walk.Entry]:
        base = f"{name}/" if name else ""
        inside = {key[len(base) :] for key in files if key.startswith(base)}
        return [
            walk.Entry(first, bool(rest), 0, 0)
            for first, rest in {(key.partition("/")[0], "/" in key) for key in inside}
        ]

    wanted = sorted(key for key in files if key.startswith(prefix) and key > after)
    found = walk.page(folder, prefix, after, limit)
    assert [each.key for each in found.objects] == wanted[:limit]
    assert found.more == (len(wanted) > limit)
