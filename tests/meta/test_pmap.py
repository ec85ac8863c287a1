from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.meta.pmap import PMap

keys = st.integers(-5, 2050)  # wide enough that some keys share a bucket
changes = st.lists(st.tuples(keys, st.none() | st.integers()), max_size=60)


@given(changes)
def test_it_equals_a_dict_that_took_the_same_changes(steps: list[tuple[int, int | None]]) -> None:
    model: dict[int, int] = {}
    tested: PMap[int, int] = PMap()
    for key, value in steps:
        if value is None:
            model.pop(key, None)
            tested = tested.without(key)
        else:
            model[key] = value
            tested = tested.with_(key, value)
        assert tested == model
        assert len(tested) == len(model) == len(list(tested))
    assert PMap(model) == tested


@given(changes)
def test_a_change_leaves_the_old_map_alone(steps: list[tuple[int, int | None]]) -> None:
    old = PMap({key: value for key, value in steps if value is not None})
    before = dict(old)
    for key, value in steps:
        old.without(key)
        old.with_(key, value or 0)
    assert dict(old) == before


def test_a_missing_key_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        PMap({1: 2})[3]
