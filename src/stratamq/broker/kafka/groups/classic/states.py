"""The life of a classic group, as a table.

Empty       nobody is in it; it may still have offsets
Preparing   members have to join; those who do not in time are out
Completing  all have joined and wait for the leader's assignment
Stable      everyone has an assignment
Dead        deleted; whoever still holds it looks it up again
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto


class State(StrEnum):
    """By the names that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    REBALANCE_NEEDED = auto()
    ALL_JOINED = auto()
    NOBODY_LEFT = auto()
    ASSIGNED = auto()
    DELETED = auto()


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.EMPTY, Event.REBALANCE_NEEDED): State.PREPARING,
    (State.EMPTY, Event.DELETED): State.DEAD,
    (State.PREPARING, Event.REBALANCE_NEEDED): State.PREPARING,
    (State.PREPARING, Event.ALL_JOINED): State.COMPLETING,
    (State.PREPARING, Event.NOBODY_LEFT): State.EMPTY,
    (State.COMPLETING, Event.REBALANCE_NEEDED): State.PREPARING,
    (State.COMPLETING, Event.ASSIGNED): State.STABLE,
    (State.STABLE, Event.REBALANCE_NEEDED): State.PREPARING,
}


def step(state: State, event: Event) -> State:
    """The next state. A step that is not in the table is a bug of the caller."""
    return TRANSITIONS[state, event]
