"""The life of a classic group, as a table.

Empty       it has no members; it may still have offsets
Preparing   members have to join; those that do not in time are removed
Completing  all have joined and wait for the leader's assignment
Stable      all members have an assignment
Dead        deleted; a request that still holds it looks it up again
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto


class ClassicState(StrEnum):
    """By the names that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicEvent(Enum):
    REBALANCE_NEEDED = auto()
    ALL_JOINED = auto()
    NOBODY_LEFT = auto()
    ASSIGNED = auto()
    DELETED = auto()


TRANSITIONS: dict[tuple[ClassicState, ClassicEvent], ClassicState] = {
    (ClassicState.EMPTY, ClassicEvent.REBALANCE_NEEDED): ClassicState.PREPARING,
    (ClassicState.EMPTY, ClassicEvent.DELETED): ClassicState.DEAD,
    (ClassicState.PREPARING, ClassicEvent.REBALANCE_NEEDED): ClassicState.PREPARING,
    (ClassicState.PREPARING, ClassicEvent.ALL_JOINED): ClassicState.COMPLETING,
    (ClassicState.PREPARING, ClassicEvent.NOBODY_LEFT): ClassicState.EMPTY,
    (ClassicState.COMPLETING, ClassicEvent.REBALANCE_NEEDED): ClassicState.PREPARING,
    (ClassicState.COMPLETING, ClassicEvent.ASSIGNED): ClassicState.STABLE,
    (ClassicState.STABLE, ClassicEvent.REBALANCE_NEEDED): ClassicState.PREPARING,
}


def step(state: ClassicState, event: ClassicEvent) -> ClassicState:
    """The next state. A step that is not in the table is a bug of the caller."""
    return TRANSITIONS[state, event]


class JoinTimer:
    """Ends when all members have joined or time is up.

    The first rebalance of an empty group is different: more members are probably on their way, so
    it waits a while even when all it knows have joined, and a while longer when a member came.
    """

    def __init__(self) -> None:
        self.deadline_ms: int | None = None
        self.grew = False
        self._delay_ms: int | None = None
        self._left_ms = 0

    def start(self, now_ms: int, limit_ms: int, delay_ms: int | None) -> None:
        """`delay_ms` is the wait of a first rebalance, None for any other."""
        self._delay_ms = None if delay_ms is None else min(delay_ms, limit_ms)
        wait_ms = limit_ms if self._delay_ms is None else self._delay_ms
        self._left_ms = limit_ms - wait_ms
        self.deadline_ms = now_ms + wait_ms
        self.grew = False

    def stop(self) -> None:
        self.deadline_ms = None

    def over(self, now_ms: int, *, all_there: bool) -> bool:
        assert self.deadline_ms is not None, "started when the group began to prepare"
        if self._delay_ms is None:
            return all_there or now_ms >= self.deadline_ms
        if now_ms < self.deadline_ms:
            return False
        if not self.grew or self._left_ms <= 0 or self._delay_ms <= 0:
            return True
        wait_ms = min(self._delay_ms, self._left_ms)
        self._left_ms -= wait_ms
        self.deadline_ms = now_ms + wait_ms
        self.grew = False
        return False
