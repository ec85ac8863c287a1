"""Ours and theirs in turn, round by round, so that what slows the machine meets both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.storage.report import Row, median, spread

Ask = Callable[[], Any]
KAFKA, PARQUET = "kafka", "parquet"
"""Whose time ours is put beside: by how many times as fast it is, and by how many times as long."""


class Goal(NamedTuple):
    """How many times as fast, or how many times as long."""

    text: str = ""
    times_faster_min: float | None = None
    times_longer_max: float | None = None

    def met(self, faster: float) -> bool | None:
        if self.times_faster_min is not None:
            return faster >= self.times_faster_min
        return None if self.times_longer_max is None else 1 / faster <= self.times_longer_max


def faster(times: float) -> Goal:
    return Goal(f">= {times:g} times as fast", times_faster_min=times)


def no_longer(times: float) -> Goal:
    return Goal(f"<= {times:g} times as long", times_longer_max=times)


NONE = Goal()


@dataclass(slots=True)
class Pair:
    """One question, asked in our way and in theirs."""

    what: str
    ours: Ask
    theirs: Ask
    whose: str
    goal: Goal = NONE
    rows: int = 0
    took: list[tuple[float, float]] = field(default_factory=list)

    def row(self) -> Row:
        ours, theirs = (median(column) for column in zip(*self.took, strict=True))
        ratios = [their / our for our, their in self.took]
        met = self.goal.met(median(ratios))
        if self.whose == PARQUET:
            ratios = [1 / one for one in ratios]
        return Row(
            what=self.what,
            ours=self._shown(ours),
            ceiling=f"{self._shown(theirs)} {self.whose}",
            ratio=f"{median(ratios):.2f} ({spread(ratios)})",
            goal=self.goal.text,
            met=met,
        )

    def _shown(self, seconds: float) -> str:
        rate = f", {self.rows / seconds / 1000:,.0f} k rows/s" if self.rows else ""
        return f"{seconds:.2f} s{rate}"


def run(pairs: Iterable[Pair], rounds: int, tell: Callable[[str], None]) -> list[Row]:
    """A first round warms up, and shows that both say the same; it does not count."""
    kept = list(pairs)
    for number in range(rounds + 1):
        for pair in kept:
            took, answers = _both(pair, ours_first=number % 2 == 0)
            tell(f"{number}/{rounds} {pair.what}: {took[0]:.2f} s, {pair.whose} {took[1]:.2f} s")
            if number:
                pair.took.append(took)
            else:
                assert answers[0] == answers[1], f"{pair.what}: {answers[0]} is not {answers[1]}"
    return [pair.row() for pair in kept]


def _both(pair: Pair, *, ours_first: bool) -> tuple[tuple[float, float], tuple[Any, Any]]:
    order = (pair.ours, pair.theirs) if ours_first else (pair.theirs, pair.ours)
    timed = list(_timed(order))
    (our_s, our), (their_s, their) = timed if ours_first else reversed(timed)
    return (our_s, their_s), (our, their)


def _timed(asks: Iterable[Ask]) -> Iterator[tuple[float, Any]]:
    for ask in asks:
        begun = time.perf_counter()
        answer = ask()
        yield time.perf_counter() - begun, answer
