"""Life of a transaction. The table is the law; nobody else decides a transition.

    EMPTY --add--> ONGOING --commit--> PREPARE_COMMIT --marked--> COMPLETE_COMMIT
      ^               | \\--abort---> PREPARE_ABORT  --marked--> COMPLETE_ABORT
      |               \\--fence--> PREPARE_EPOCH_FENCE --abort--> PREPARE_ABORT
      \\--initialize-- COMPLETE_*;  COMPLETE_* --add--> ONGOING
    EMPTY, COMPLETE_* --expired--> DEAD

From PREPARE_COMMIT and PREPARE_ABORT on the end is decided: what is left is to write the marks, as
often as it takes. PREPARE_EPOCH_FENCE is passed through and never stored: the producer was fenced,
and its transaction is going to be aborted. The names of states are Kafka's.
"""

from __future__ import annotations

from enum import StrEnum

from stratamq.model.errors import StrataError

EPOCH_MAX = (1 << 15) - 1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class State(StrEnum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"


class Event(StrEnum):
    INITIALIZE = "initialize"
    ADD = "add"
    COMMIT = "commit"
    ABORT = "abort"
    FENCE = "fence"
    MARKED = "marked"
    EXPIRED = "expired"


AT_REST = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
"""Nothing is under way: a transaction may begin, or the id expire."""

DECIDED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""Marks are being written."""

TRANSITIONS: dict[tuple[State, Event], State] = {
    **{(state, Event.INITIALIZE): State.EMPTY for state in AT_REST},
    **{(state, Event.ADD): State.ONGOING for state in AT_REST},
    **{(state, Event.EXPIRED): State.DEAD for state in AT_REST},
    # A producer that counts an epoch per transaction may abort one it has not begun.
    **{(state, Event.ABORT): State.PREPARE_ABORT for state in AT_REST},
    (State.ONGOING, Event.ADD): State.ONGOING,
    (State.ONGOING, Event.COMMIT): State.PREPARE_COMMIT,
    (State.ONGOING, Event.ABORT): State.PREPARE_ABORT,
    (State.ONGOING, Event.FENCE): State.PREPARE_EPOCH_FENCE,
    (State.PREPARE_EPOCH_FENCE, Event.ABORT): State.PREPARE_ABORT,
    (State.PREPARE_COMMIT, Event.MARKED): State.COMPLETE_COMMIT,
    (State.PREPARE_ABORT, Event.MARKED): State.COMPLETE_ABORT,
}


class IllegalTransition(StrataError):
    pass


def after(state: State, *events: Event) -> State:
    for event in events:
        try:
            state = TRANSITIONS[state, event]
        except KeyError:
            raise IllegalTransition(f"a transaction in {state} cannot take {event}") from None
    return state
