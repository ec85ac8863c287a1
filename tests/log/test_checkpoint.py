from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.log import start_offsets
from stratamq.model.errors import StorageError
from stratamq.model.types import Offset

offsets = st.integers(0, (1 << 63) - 1).map(Offset)


@given(offsets)
def test_a_start_offset_comes_back(start: Offset) -> None:
    assert start_offsets.decode(start_offsets.encode(start)) == start


@given(offsets, st.data())
def test_no_flipped_bit_moves_the_start(start: Offset, data: st.DataObject) -> None:
    stored = bytearray(start_offsets.encode(start))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(StorageError):
        start_offsets.decode(bytes(stored))


@given(offsets, st.data())
def test_a_torn_file_is_refused(start: Offset, data: st.DataObject) -> None:
    stored = start_offsets.encode(start)
    with pytest.raises(StorageError):
        start_offsets.decode(stored[: data.draw(st.integers(0, len(stored) - 1))])


@given(st.binary(max_size=40))
def test_anything_else_is_refused_by_name(data: bytes) -> None:
    try:
        start = start_offsets.decode(data)
    except StorageError:
        return
    assert start_offsets.encode(start) == data
