"""Life of a segment. The table is the law; nobody else decides a transition.

    ACTIVE --limit reached--> SEALING --replicas equal--> SEALED --uploaded--> COLD
                                                             \\________________/
    every state --expired or topic deleted--> DELETING                (fetched back: SEALED)

A segment is written only while ACTIVE, has a leader while ACTIVE or SEALING, and is immutable from
SEALED on.
"""

from __future__ import annotations

from enum import StrEnum

from stratamq.model.errors import StrataError


class State(StrEnum):
    ACTIVE = "active"
    SEALING = "sealing"
    SEALED = "sealed"
    COLD = "cold"
    DELETING = "deleting"


class Event(StrEnum):
    LIMIT_REACHED = "limit_reached"
    REPLICAS_EQUAL = "replicas_equal"
    UPLOADED = "uploaded"
    FETCHED_BACK = "fetched_back"
    EXPIRED = "expired"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.ACTIVE, Event.LIMIT_REACHED): State.SEALING,
    (State.SEALING, Event.REPLICAS_EQUAL): State.SEALED,
    (State.SEALED, Event.UPLOADED): State.COLD,
    (State.COLD, Event.FETCHED_BACK): State.SEALED,
    (State.ACTIVE, Event.EXPIRED): State.DELETING,
    (State.SEALED, Event.EXPIRED): State.DELETING,
    (State.COLD, Event.EXPIRED): State.DELETING,
}


class IllegalTransition(StrataError):
    pass


def after(state: State, event: Event) -> State:
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"a segment that is {state} cannot take {event}") from None


def has_leader(state: State) -> bool:
    return state in (State.ACTIVE, State.SEALING)
