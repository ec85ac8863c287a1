"""Checksums of objects: small enough to travel with them, and wrong about nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.errors import CorruptObject, InvalidInput
from stratamq.tiering.stores.sums import (
    BLOCKS_MAX,
    MIB,
    OBJECT_BYTES_MAX,
    TEXT_BYTES_MAX,
    Sums,
    block_bytes_of,
    decode,
    sum_bytes,
    sum_file,
)

DATA = os.urandom(2 * MIB + 100)


def test_golden() -> None:
    sums = sum_bytes(b"123456789")
    assert sums == Sums(9, MIB, 0xE3069283, (0xE3069283,))
    assert sums.encode() == "1:9:1048576:e3069283:g5IG4w==:3bb43824"
    assert sum_bytes(b"") == Sums(0, MIB, 0, ())


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, len(DATA)])
def test_a_file_sums_as_its_bytes(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA[:size])
    assert sum_file(path) == sum_bytes(DATA[:size])


@given(st.integers(0, OBJECT_BYTES_MAX))
def test_there_are_never_too_many_blocks(size: int) -> None:
    step = block_bytes_of(size)
    assert step >= MIB
    assert step & (step - 1) == 0
    assert -(-size // step) <= BLOCKS_MAX
    assert step == MIB or -(-size // (step // 2)) > BLOCKS_MAX


def test_the_longest_text_fits_the_metadata_of_s3() -> None:
    sums = Sums(OBJECT_BYTES_MAX, block_bytes_of(OBJECT_BYTES_MAX), 2**32 - 1, (2**32 - 1,) * 256)
    assert len(sums.encode()) <= TEXT_BYTES_MAX
    assert decode("k", sums.encode()) == sums


def test_an_object_has_a_limit() -> None:
    with pytest.raises(InvalidInput):
        block_bytes_of(OBJECT_BYTES_MAX + 1)


@given(st.binary(max_size=200), st.data())
def test_text_with_a_wrong_character_is_refused(data: bytes, draw: st.DataObject) -> None:
    text = sum_bytes(data).encode()
    assert decode("k", text) == sum_bytes(data)
    at = draw.draw(st.integers(0, len(text) - 1))
    other = draw.draw(st.characters(codec="ascii", exclude_characters=text[at]))
    with pytest.raises(CorruptObject):
        decode("k", text[:at] + other + text[at + 1 :])


@pytest.mark.parametrize("text", ["", ":", "1:2", "x" * 3000, "1:9:1048576:e3069283:g5IG4w=="])
def test_text_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(CorruptObject):
        decode("k", text)


@given(st.integers(0, len(DATA) - 1), st.integers(0, 7))
def test_a_wrong_bit_is_found_wherever_it_is(at: int, bit: int) -> None:
    sums = sum_bytes(DATA)
    first, last = sums.widened(at, at + 1)
    assert first <= at < last
    block = bytearray(DATA[first:last])
    sums.check("k", first, bytes(block))
    block[at - first] ^= 1 << bit
    with pytest.raises(CorruptObject, match=f"from {first} on"):
        sums.check("k", first, bytes(block))


@given(st.integers(0, len(DATA)), st.integers(0, len(DATA)))
def test_a_range_is_widened_to_whole_blocks(one: int, other: int) -> None:
    start, stop = min(one, other), max(one, other)
    first, last = sum_bytes(DATA).widened(start, stop)
    assert first <= start <= stop <= last
    assert first % MIB == 0
    assert last % MIB == 0 or last == len(DATA)
    assert start - first < MIB
    assert last - stop < MIB
