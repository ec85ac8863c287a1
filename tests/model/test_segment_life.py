"""The table of a segment's life is complete and closed."""

from __future__ import annotations

import pytest

from stratamq.model.errors import IllegalTransition
from stratamq.model.shard import TRANSITIONS, SegmentEvent, SegmentState, after, has_leader


def test_a_life_from_the_first_write_to_the_cold_tier_and_back() -> None:
    state = SegmentState.ACTIVE
    for event, expected in [
        (SegmentEvent.LIMIT_REACHED, SegmentState.SEALING),
        (SegmentEvent.REPLICAS_EQUAL, SegmentState.SEALED),
        (SegmentEvent.UPLOADED, SegmentState.COLD),
        (SegmentEvent.FETCHED_BACK, SegmentState.SEALED),
        (SegmentEvent.EXPIRED, SegmentState.DELETING),
    ]:
        state = after(state, event)
        assert state is expected


@pytest.mark.parametrize("state", SegmentState)
@pytest.mark.parametrize("event", SegmentEvent)
def test_only_the_table_decides(state: SegmentState, event: SegmentEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert after(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransition, match=f"{state} cannot take {event}"):
            after(state, event)


def test_sealed_data_is_never_written_again() -> None:
    sealed = {SegmentState.SEALED, SegmentState.COLD, SegmentState.DELETING}
    assert not any(
        after in (SegmentState.ACTIVE, SegmentState.SEALING) and before in sealed
        for (before, _), after in TRANSITIONS.items()
    )


def test_deleting_is_final() -> None:
    assert not [event for state, event in TRANSITIONS if state is SegmentState.DELETING]


def test_a_leader_is_there_until_all_replicas_are_equal() -> None:
    assert {state for state in SegmentState if has_leader(state)} == {
        SegmentState.ACTIVE,
        SegmentState.SEALING,
    }
