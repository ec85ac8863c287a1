"""The table of a segment's life is complete and closed."""

from __future__ import annotations

import pytest

from stratamq.model.segment import (
    TRANSITIONS,
    Event,
    IllegalTransition,
    State,
    after,
    has_leader,
)


def test_a_life_from_the_first_write_to_the_cold_tier_and_back() -> None:
    state = State.ACTIVE
    for event, expected in [
        (Event.LIMIT_REACHED, State.SEALING),
        (Event.REPLICAS_EQUAL, State.SEALED),
        (Event.UPLOADED, State.COLD),
        (Event.FETCHED_BACK, State.SEALED),
        (Event.EXPIRED, State.DELETING),
    ]:
        state = after(state, event)
        assert state is expected


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_only_the_table_decides(state: State, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert after(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransition, match=f"{state} cannot take {event}"):
            after(state, event)


def test_sealed_data_is_never_written_again() -> None:
    sealed = {State.SEALED, State.COLD, State.DELETING}
    assert not any(
        after in (State.ACTIVE, State.SEALING) and before in sealed
        for (before, _), after in TRANSITIONS.items()
    )


def test_deleting_is_final() -> None:
    assert not [event for state, event in TRANSITIONS if state is State.DELETING]


def test_a_leader_is_there_until_all_replicas_are_equal() -> None:
    assert {state for state in State if has_leader(state)} == {State.ACTIVE, State.SEALING}
