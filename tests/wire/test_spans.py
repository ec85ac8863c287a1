"""Many batches in one buffer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.errors import CorruptBatch, UnsupportedFormat
from stratamq.wire.kafka.records import (
    BatchSpan,
    check_crc,
    drop_records,
    encode_batch,
    find_batch,
    intact,
    iter_batches,
    read_header,
    walk,
)
from tests.waiting import every
from tests.wire.samples import NOW, some_records, with_field


def batches(sizes: list[int], base_offset: int = 0) -> list[bytes]:
    result = []
    for size in sizes:
        result.append(encode_batch(some_records(size), now_ms=NOW, base_offset=base_offset))
        base_offset += size
    return result


def spans_of(parts: list[bytes], start: int = 0) -> list[BatchSpan]:
    spans = []
    for part in parts:
        header = read_header(part)
        spans.append(
            BatchSpan(
                start, len(part), header.base_offset, header.last_offset, header.max_timestamp
            )
        )
        start += len(part)
    return spans


PARTS = batches([3, 1, 5, 2], base_offset=100)
WHOLE = b"".join(PARTS)


@given(st.lists(st.integers(1, 6), max_size=8), st.integers(0, 1 << 62))
def test_walk_finds_every_batch(sizes: list[int], base_offset: int) -> None:
    parts = batches(sizes, base_offset)
    assert walk(b"".join(parts)) == spans_of(parts)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_walk_and_find_take_any_buffer_and_start_anywhere(kind: type) -> None:
    data = kind(WHOLE)
    second = len(PARTS[0])
    assert walk(data, second) == spans_of(PARTS[1:], second)
    assert find_batch(data, 0, second) == second
    assert [header for header, _ in iter_batches(data)] == [read_header(part) for part in PARTS]
    assert [bytes(view) for _, view in iter_batches(data)] == PARTS


def test_walk_ends_before_a_cut_wherever_it_is() -> None:
    ends = [0]
    for part in PARTS:
        ends.append(ends[-1] + len(part))
    for cut in range(len(WHOLE) + 1):
        whole_batches = sum(end <= cut for end in ends) - 1
        assert walk(WHOLE[:cut]) == spans_of(PARTS)[:whole_batches]


@pytest.mark.parametrize(
    "bad",
    [
        with_field(PARTS[1], 16, ">b", 1),
        with_field(PARTS[1], 16, ">b", 3),
        with_field(PARTS[1], 8, ">i", 48),
        with_field(PARTS[1], 8, ">i", -1),
        with_field(PARTS[1], 8, ">i", (1 << 31) - 1),
        with_field(PARTS[1], 23, ">i", -1),
        with_field(PARTS[1], 0, ">q", (1 << 63) - 1)[:23] + b"\0\0\0\1" + PARTS[1][27:],
        bytes(200),
    ],
)
def test_walk_ends_before_what_cannot_be_a_batch(bad: bytes) -> None:
    data = PARTS[0] + bad + PARTS[2]
    assert walk(data) == spans_of(PARTS[:1])
    assert find_batch(data, 101) == 0
    assert find_batch(data, 105) == -1


@pytest.mark.parametrize("position", [-1, -(1 << 62), len(WHOLE), len(WHOLE) + 1, (1 << 62)])
def test_positions_outside_find_nothing(position: int) -> None:
    assert walk(WHOLE, position) == []
    assert find_batch(WHOLE, 0, position) == -1


def test_find_gives_the_batch_that_holds_the_offset_or_the_next() -> None:
    starts = {span.position: range(span.base_offset, span.last_offset + 1) for span in walk(WHOLE)}
    for position, offsets in every(starts.items()):
        assert {find_batch(WHOLE, offset) for offset in offsets} == {position}
    assert find_batch(WHOLE, 0) == 0
    assert find_batch(WHOLE, 111) == -1
    without_second = PARTS[0] + PARTS[2]
    assert find_batch(without_second, 103) == len(PARTS[0])


def test_a_thinned_batch_still_covers_its_offsets() -> None:
    thinned = drop_records(read_header(PARTS[2]), PARTS[2], {104, 108})
    assert thinned is not None
    (span,) = walk(thinned)
    assert (span.base_offset, span.last_offset) == (104, 108)


@pytest.mark.parametrize("tail", [b"\0", WHOLE[:60], WHOLE[:-1]])
def test_iteration_refuses_what_is_not_a_whole_batch(tail: bytes) -> None:
    with pytest.raises(CorruptBatch):
        list(iter_batches(WHOLE + tail))
    with pytest.raises((CorruptBatch, UnsupportedFormat)):
        list(iter_batches(WHOLE + bytes(100)))


# -- what a reader may be given ------------------------------------------------------------------


def intact_by_hand(
    data: bytes, first: int, bytes_max: int, end: int, whole: bool
) -> tuple[int, int]:
    """`intact` in plain Python."""
    size, expected, spans = 0, first, walk(data)
    for number, span in enumerate(spans):
        after = span.position + span.size
        if span.last_offset >= end or (size and after > bytes_max):
            break
        if (size or first >= 0) and span.base_offset != expected:
            following = spans[number + 1].base_offset if number + 1 < len(spans) else -1
            is_gap = span.base_offset > expected and following > span.last_offset
            if whole or not size or not is_gap:
                break
        if not check_crc(data, read_header(data, span.position), span.position):
            break
        size, expected = after, span.last_offset + 1
    return size, expected


FEW = batches([1, 2, 1, 3], base_offset=10)
OTHERS = batches([2, 1], base_offset=12) + batches([1], base_offset=40)
DAMAGED = [with_field(FEW[1], 100, ">B", 0xFF), with_field(FEW[2], 0, ">q", -4)]


@given(
    parts=st.lists(st.sampled_from(FEW + OTHERS + DAMAGED), max_size=6),
    cut=st.integers(0, 80),
    first=st.integers(-1, 14),
    bytes_max=st.integers(0, 600),
    end=st.integers(0, 50),
    whole=st.booleans(),
)
def test_what_is_trusted_is_what_the_rules_say(
    parts: list[bytes], cut: int, first: int, bytes_max: int, end: int, whole: bool
) -> None:
    data = b"".join(parts)
    data = data[: max(len(data) - cut, 0)]
    expected = intact_by_hand(data, first, bytes_max, end, whole)
    assert intact(data, first, bytes_max, end, whole) == expected


def test_all_that_is_in_order_is_trusted() -> None:
    data = b"".join(FEW)
    assert intact(data, 10, len(data), 17, True) == (len(data), 17)
    assert intact(data, -1, 1, 17, True) == (len(FEW[0]), 11), "the first, whatever its size"
    assert intact(data, 11, len(data), 17, True) == (0, 11), "another one was asked for"
    assert intact(data, 10, len(data), 16, True) == (len(data) - len(FEW[3]), 14)
    gap = FEW[0] + FEW[2] + FEW[3]
    assert intact(gap, 10, len(gap), 17, True) == (len(FEW[0]), 11)
    assert intact(gap, 10, len(gap), 17, False) == (len(gap), 17)
