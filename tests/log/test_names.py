from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.log import names
from stratamq.model.types import Offset, Position

offsets = st.integers(0, (1 << 63) - 1).map(Offset)


@given(offsets)
def test_a_log_tells_its_base(base: Offset) -> None:
    assert names.base_of_log(names.segment_file(base, names.LOG)) == base


@given(offsets, st.integers(0, 1 << 31))
def test_nothing_else_is_taken_for_a_log(base: Offset, position: int) -> None:
    log = names.segment_file(base, names.LOG)
    for name in (
        names.segment_file(base, names.OFFSET_INDEX),
        names.segment_file(base, names.TIME_INDEX),
        log + names.CLEANED,
        log + names.TEMPORARY,
        names.torn_file(base, Position(position)),
    ):
        assert names.base_of_log(name) is None


@pytest.mark.parametrize(
    "name",
    ["", ".log", "1.log", "x" * 20 + ".log", "²" * 20 + ".log", "-" + "0" * 19 + ".log", "٣" * 20],
)
def test_a_stranger_is_no_log(name: str) -> None:
    assert names.base_of_log(name) is None


@given(st.lists(offsets, max_size=10))
def test_names_sort_like_offsets(bases: list[Offset]) -> None:
    listed = sorted(names.segment_file(base, names.LOG) for base in bases)
    assert [names.base_of_log(name) for name in listed] == sorted(bases)
