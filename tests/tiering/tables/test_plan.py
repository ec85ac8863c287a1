"""The open end of a table: nothing is left out, nothing doubled, and little written again."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.log.contract import SegmentInfo
from stratamq.meta.tier.files import ParquetEnd, TierFile, TierObject
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.tiering.tables.plan import FORCED, EarlyFile, Ends, merges, missing, worthwhile

SHARD = ShardName("ab_0")


def segment(base: int, end: int, *, active: bool = False) -> SegmentInfo:
    return SegmentInfo(
        Offset(base), Offset(end), 10 * (end - base), TimestampMs(1), TimestampMs(2), active
    )


def file(base: int, end: int, *, final: bool = False, log_bytes: int = 0) -> TierFile:
    return TierFile(
        shard=SHARD,
        base_offset=Offset(base),
        end_offset=Offset(end),
        final=final,
        parquet=TierObject(f"{base}-{end}", 1, 2),
        parquet_end=ParquetEnd(1, 2, 3, 4),
        rows=end - base,
        log_bytes=log_bytes or 10 * (end - base),
    )


def plan(base: int, end: int, *replace: int) -> EarlyFile:
    return EarlyFile(Offset(base), Offset(end), tuple(map(Offset, replace)))


def ends(start: int, stable: int) -> Ends:
    return Ends(Offset(start), Offset(stable))


SEGMENTS = [segment(0, 100), segment(100, 200), segment(200, 270, active=True)]


@pytest.mark.parametrize(
    ("files", "bounds", "expected"),
    [
        ([], ends(0, 270), [plan(0, 100), plan(100, 200), plan(200, 270)]),
        ([], ends(0, 250), [plan(0, 100), plan(100, 200), plan(200, 250)]),
        ([], ends(150, 200), [plan(150, 200)]),
        ([], ends(270, 270), []),
        (
            [file(0, 100, final=True), file(100, 150)],
            ends(0, 240),
            [plan(150, 200), plan(200, 240)],
        ),
        ([file(0, 100), file(100, 200), file(200, 240)], ends(0, 240), []),
        ([file(0, 100), file(100, 200), file(200, 240)], ends(0, 241), [plan(240, 241)]),
        ([file(0, 40), file(60, 100)], ends(0, 100), [plan(40, 60)]),
        ([file(0, 40), file(60, 100)], ends(50, 100), [plan(50, 60)]),
        ([file(0, 200, final=True)], ends(0, 200), []),
    ],
)
def test_a_flush_writes_what_no_file_has(
    files: list[TierFile], bounds: Ends, expected: list[EarlyFile]
) -> None:
    assert missing(SEGMENTS, files, bounds) == expected


@pytest.mark.parametrize(
    ("files", "bounds", "count", "expected"),
    [
        ([file(200, 210), file(210, 220)], ends(0, 270), 3, []),
        ([file(200, 210), file(210, 220)], ends(0, 270), 2, [plan(200, 220, 200, 210)]),
        ([file(100, 120), file(120, 200)], ends(0, 270), 8, [plan(100, 200, 100, 120)]),
        ([file(100, 120), file(120, 199)], ends(0, 199), 8, []),
        ([file(100, 200)], ends(0, 270), 2, []),
        ([file(100, 200, final=True), file(0, 50, final=True)], ends(0, 270), 2, []),
        (
            [file(200, 260), file(260, 265), file(265, 270)],
            ends(0, 270),
            3,
            [plan(260, 270, 260, 265)],
        ),
        ([file(0, 10), file(10, 20)], ends(20, 270), 2, []),
    ],
)
def test_small_files_become_one(
    files: list[TierFile], bounds: Ends, count: int, expected: list[EarlyFile]
) -> None:
    assert merges(SEGMENTS, files, bounds, count) == expected


@given(st.lists(st.integers(1, 1000), max_size=12))
def test_a_merge_is_worth_its_price(sizes: list[int]) -> None:
    first, end = worthwhile(sizes)
    if end:
        assert end - first > 1
        assert 2 * max(sizes[first:end]) <= sum(sizes[first:end])
    else:
        assert all(one != other for one, other in itertools.pairwise(sizes))


segment_lists = st.lists(st.integers(1, 40), min_size=1, max_size=5)


@given(segment_lists, st.lists(st.booleans(), min_size=30, max_size=30), st.data())
def test_every_flush_is_complete_and_within_its_bounds(
    lengths: list[int], chosen: list[bool], data: st.DataObject
) -> None:
    edges = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    pairs = list(itertools.pairwise(edges))
    segments = [segment(a, b, active=(a, b) == pairs[-1]) for a, b in pairs]
    files = []
    for (a, b), final in zip(pairs, chosen, strict=False):
        cuts = sorted(data.draw(st.sets(st.integers(a, b), max_size=4)) | {a, b})
        pieces = list(itertools.pairwise(cuts))
        kept = [one for one in pieces if data.draw(st.booleans())]
        files += [file(a, b, final=True)] if final else [file(c, d) for c, d in kept]
    stable = data.draw(st.integers(0, edges[-1]))
    start = data.draw(st.integers(0, stable))
    planned = missing(segments, files, ends(start, stable))
    covered = Counter(o for one in planned for o in range(one.base_offset, one.end_offset))
    had = {o for one in files for o in range(one.base_offset, one.end_offset)}
    assert set(covered) == set(range(start, stable)) - had
    assert all(times == 1 for times in covered.values())
    for one in planned:
        assert any(a <= one.base_offset < one.end_offset <= b for a, b in pairs)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=300)
    | st.lists(st.integers(1, 3000), min_size=1, max_size=60),
    st.integers(2, 10),
)
@settings(max_examples=60)
def test_records_are_written_a_few_times_only_and_files_stay_few(
    growth: list[int], count: int
) -> None:
    """A segment that is flushed after each growth, until it is full."""
    written: Counter[int] = Counter()
    files: list[TierFile] = []
    end = 0

    def carry_out(one: EarlyFile) -> None:
        nonlocal files
        files = [f for f in files if f.base_offset not in one.replace]
        files.append(file(one.base_offset, one.end_offset))
        for number in range(len(growth)):
            if one.base_offset <= sum(growth[:number]) < one.end_offset:
                written[number] += 1

    for step in growth:
        end += step
        active = [segment(0, end, active=True)]
        for one in missing(active, files, ends(0, end)):
            carry_out(one)
        while planned := merges(active, files, ends(0, end), count):
            carry_out(planned[0])
        assert len(files) < FORCED * count
    for one in merges([segment(0, end)], files, ends(0, end), count):
        carry_out(one)
    assert len(files) == 1
    smallest = min(growth)
    assert max(written.values()) <= 3 + math.log2(end / smallest)
