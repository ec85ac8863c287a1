"""Cuts into tasks, limits of micro-batches, offsets as Spark shows them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stratamq.client import TopicPartition
from stratamq.spark.options import TriggerLimits
from stratamq.spark.planning import OffsetRange, admitted, is_too_little, split
from stratamq.spark.positions import StreamOffsets, lag

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ID = bytes(range(16))


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), max_size=5),
    st.floats(0, 1000),
    st.integers(1, 1 << 20),
    st.none() | st.integers(1, 50),
)
def test_pieces_cover_every_offset_once(
    extents: list[tuple[int, int]], density: float, bytes_max: int, least: int | None
) -> None:
    ranges = [
        OffsetRange(
            place=TopicPartition("t", i), start=start, stop=start + count, offset_bytes=density
        )
        for i, (start, count) in enumerate(extents)
    ]
    pieces = split(ranges, bytes_max, least)
    for whole in ranges:
        ours = [piece for piece in pieces if piece.place == whole.place]
        assert sum(piece.count for piece in ours) == whole.count
        if ours:
            assert (ours[0].start, ours[-1].stop) == (whole.start, whole.stop)
            assert all(a.stop == b.start for a, b in pairwise(ours))
        assert all(piece.count > 0 for piece in ours)
    total = sum(one.count for one in ranges)
    assert len(pieces) >= min(least or 0, total)


def test_pieces_keep_to_their_size() -> None:
    one = OffsetRange(place=A, start=100, stop=1100, offset_bytes=10.0)
    assert [piece.count for piece in split([one], 2500, None)] == [250] * 4


@given(
    st.dictionaries(
        st.sampled_from([A, B, TopicPartition("u", 0)]),
        st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    ),
    st.none() | st.integers(1, 500),
    st.none() | st.integers(1, 5000),
)
def test_a_micro_batch_moves_on_and_keeps_to_its_limits(
    extents: dict[TopicPartition, tuple[int, int]], most: int | None, bytes_max: int | None
) -> None:
    starts = {place: start for place, (start, _) in extents.items()}
    ends = {place: start + count for place, (start, count) in extents.items()}
    limits = TriggerLimits(offsets_max=most, bytes_max=bytes_max)
    found = admitted(starts, ends, limits, dict.fromkeys(ends, 10.0))
    counts = {place: found[place] - starts[place] for place in ends}
    assert set(found) == set(ends)
    for place, count in counts.items():
        assert 0 <= count <= ends[place] - starts[place]
        assert count or ends[place] == starts[place], "nobody waits for ever"
    spare = len(ends)  # each may have one more than its share
    assert most is None or sum(counts.values()) <= most + spare
    assert bytes_max is None or sum(counts.values()) * 10 <= bytes_max + 10 * spare


def test_too_little_is_waited_for_but_not_for_ever() -> None:
    limits = TriggerLimits(offsets_min=10, delay_ms_max=1000)
    assert is_too_little({A: 0}, {A: 9}, limits, waited_ms=999)
    assert not is_too_little({A: 0}, {A: 10}, limits, waited_ms=0)
    assert not is_too_little({A: 0}, {A: 9}, limits, waited_ms=1000)
    assert not is_too_little({A: 0}, {A: 9}, TriggerLimits(), waited_ms=0)


def test_offsets_as_spark_shows_them() -> None:
    offsets = StreamOffsets({B: 5, A: 7}, {"t": ID})
    assert offsets.stored() == {"t": {"id": ID.hex(), "0": 7, "1": 5}}
    assert StreamOffsets.parse(offsets.stored()) == offsets
    assert StreamOffsets.parse({"t": {"0": 7}}) == StreamOffsets({A: 7}), "as of earlier versions"
    assert offsets.without(["t"]) == StreamOffsets({})


def test_lag_from_what_a_query_reports() -> None:
    source = {"endOffset": '{"t": {"0": 7}}', "latestOffset": '{"t": {"0": 10, "1": 4}}'}
    other = {"endOffset": "3", "latestOffset": None}
    assert lag({"sources": [source, other]}) == {A: 3, B: 4}


def test_all_of_a_topic_that_was_made_again_is_lag() -> None:
    source = {
        "endOffset": {"t": {"id": ID.hex(), "0": 7}},
        "latestOffset": {"t": {"id": ID[::-1].hex(), "0": 10}},
    }
    assert lag({"sources": [source]}) == {A: 10}
