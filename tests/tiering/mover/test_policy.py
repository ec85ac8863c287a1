"""The policy's laws, over random shards that are carried through to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.log.contract import SegmentInfo
from stratamq.meta.tier.files import ParquetEnd, TierFile, TierObject
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName, TimestampMs
from stratamq.tiering.mover.policy import (
    Action,
    Drop,
    LocalLimits,
    Offload,
    SegmentUpload,
    ShardState,
    decide,
    local_limits,
)

NOW = 1_700_000_000_000
SHARD = ShardName("t_0")


def segment(
    base: int, end: int, size: int = 100, age_ms: int = 10, active: bool = False
) -> SegmentInfo:
    stamp = TimestampMs(NOW - age_ms)
    return SegmentInfo(Offset(base), Offset(end), size, stamp, stamp, active)


def tier_file(base: int, end: int, *, final: bool = True, log_bytes: int = 100) -> TierFile:
    return TierFile(
        shard=SHARD,
        base_offset=Offset(base),
        end_offset=Offset(end),
        final=final,
        parquet=TierObject(f"{base}-{end}", 1, 1),
        parquet_end=ParquetEnd(1, 1, 1, 1),
        log_bytes=log_bytes,
    )


def state(
    segments: Sequence[SegmentInfo],
    files: Sequence[TierFile] = (),
    *,
    start: int = 0,
    stable: int = 1 << 60,
) -> ShardState:
    return ShardState(
        segments=tuple(segments), files=tuple(files), start=Offset(start), stable=Offset(stable)
    )


def carried_out(now: ShardState, actions: Sequence[Action]) -> ShardState:
    """The shard after the actions, by the rules of those who carry them out."""
    segments, files = list(now.segments), list(now.files)
    for action in actions:
        match action:
            case Drop(below):
                files = [file for file in files if file.end_offset > below]
            case Offload(end):
                segments = [one for one in segments if one.end_offset > end]
            case SegmentUpload(one, base, end, replaced, early):
                gone = {*replaced, *early}
                files = [file for file in files if file.base_offset not in gone]
                files.append(tier_file(base, end, log_bytes=one.size_bytes))
                files.sort(key=lambda file: file.base_offset)
                for before, after in pairwise(files):
                    assert before.end_offset <= after.base_offset, "files do not overlap"
    return replace(now, segments=tuple(segments), files=tuple(files))


def finished(now: ShardState, limits: LocalLimits) -> ShardState:
    """Until nothing is left to do. After an upload it is decided anew."""
    for _ in range(2 * len(now.segments) + 2):
        actions = decide(now, limits, NOW)
        if not actions:
            return now
        uploads = [action for action in actions if isinstance(action, SegmentUpload)]
        others = [action for action in actions if not isinstance(action, SegmentUpload)]
        now = carried_out(now, [*others, *uploads[:1]])
    raise AssertionError("it goes on for ever")


@st.composite
def states(draw: st.DrawFn) -> ShardState:
    ends = sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=10)))
    bases = [0, *ends[:-1]]
    segments = [
        segment(
            base,
            end,
            size=draw(st.sampled_from([0, 50, 100, 700])),
            age_ms=draw(st.integers(-5, 40)),
            active=end == ends[-1],
        )
        for base, end in zip(bases, ends, strict=True)
    ]
    edges = sorted(draw(st.sets(st.integers(0, 70), max_size=8)))
    files = [
        tier_file(
            base,
            end,
            final=draw(st.booleans()),
            log_bytes=draw(st.sampled_from([50, 100])),
        )
        for base, end in pairwise(edges)
        if draw(st.booleans())
    ]
    offsets = st.integers(0, ends[-1])
    return state(segments, files, start=draw(offsets), stable=draw(offsets))


limits = st.builds(
    LocalLimits,
    st.none() | st.integers(0, 30),
    st.none() | st.integers(0, 2000),
)


@given(now=states(), limit=limits)
def test_only_sealed_and_stable_segments_move_oldest_first(
    now: ShardState, limit: LocalLimits
) -> None:
    actions = decide(now, limit, NOW)
    uploads = [action for action in actions if isinstance(action, SegmentUpload)]
    for upload in uploads:
        assert not upload.segment.active
        assert upload.segment.end_offset <= now.stable
        assert upload.segment.base_offset <= upload.base_offset < upload.end_offset
        assert upload.end_offset <= upload.segment.end_offset
    order = [now.segments.index(upload.segment) for upload in uploads]
    assert order == sorted(order)
    for action in actions:
        if isinstance(action, Offload):
            assert action.end <= now.stable
            assert all(one.end_offset != action.end or not one.active for one in now.segments)


@given(now=states(), limit=limits)
def test_none_is_left_out(now: ShardState, limit: LocalLimits) -> None:
    """What leaves is the oldest part, and final files have all of it."""
    after = finished(now, limit)
    assert after.segments == now.segments[len(now.segments) - len(after.segments) :]
    finals = {
        offset
        for file in after.files
        if file.final
        for offset in range(file.base_offset, file.end_offset)
    }
    for gone in now.segments[: len(now.segments) - len(after.segments)]:
        wanted = range(max(gone.base_offset, now.start), gone.end_offset)
        assert finals.issuperset(wanted)


@given(now=states(), limit=limits)
def test_it_ends_within_the_limits(now: ShardState, limit: LocalLimits) -> None:
    after = finished(now, limit)
    first = after.segments[0]
    if first.active or first.end_offset > now.stable:
        return
    if limit.size_bytes is not None:
        assert sum(one.size_bytes for one in after.segments) <= limit.size_bytes
    aged = [one for one in after.segments if one.size_bytes]
    if limit.age_ms is not None and aged and aged[0].end_offset <= now.stable:
        assert aged[0].active or NOW - aged[0].max_timestamp <= limit.age_ms


@given(now=states(), limit=limits)
def test_no_more_than_is_due(now: ShardState, limit: LocalLimits) -> None:
    """The youngest that left had to: it was too old, or all behind it and itself too large."""
    after = finished(now, limit)
    count = len(now.segments) - len(after.segments)
    if not count:
        return
    last, rest = now.segments[count - 1], now.segments[count - 1 :]
    old = limit.age_ms is not None and NOW - last.max_timestamp > limit.age_ms
    large = limit.size_bytes is not None and (
        sum(one.size_bytes for one in rest) > limit.size_bytes
    )
    assert (old and last.size_bytes) or large


@given(now=states())
def test_files_below_the_start_are_dropped(now: ShardState) -> None:
    after = carried_out(now, decide(now, LocalLimits(None, None), NOW))
    assert all(file.end_offset > now.start for file in after.files)
    assert after.segments == now.segments


def test_a_rewritten_segment_is_uploaded_again() -> None:
    segments = [segment(0, 10, size=80), segment(10, 20, active=True)]
    now = state(segments, [tier_file(0, 10, log_bytes=100)])
    limit = LocalLimits(5, None)
    assert decide(now, limit, NOW) == (
        SegmentUpload(segments[0], Offset(0), Offset(10), (Offset(0),)),
    )
    assert [one.base_offset for one in finished(now, limit).segments] == [10]


def test_a_segment_that_took_its_neighbours_place_is_uploaded_again() -> None:
    """Compaction emptied the segment at 10 away: the one before it now ends at 20."""
    segments = [segment(0, 20), segment(20, 30, active=True)]
    now = state(segments, [tier_file(0, 10)])
    actions = decide(now, LocalLimits(5, None), NOW)
    assert actions == (SegmentUpload(segments[0], Offset(0), Offset(20), (Offset(0),)),)


def test_early_files_make_room() -> None:
    segments = [segment(0, 20), segment(20, 30, active=True)]
    early = [tier_file(0, 4, final=False), tier_file(4, 9, final=False)]
    now = state(segments, [*early, tier_file(20, 25, final=False)])
    (upload,) = decide(now, LocalLimits(5, None), NOW)
    assert upload == SegmentUpload(segments[0], Offset(0), Offset(20), (), (Offset(0), Offset(4)))


def test_an_undecided_transaction_holds_everything_behind_it() -> None:
    segments = [segment(0, 10), segment(10, 20), segment(20, 30, active=True)]
    assert [
        action.segment.base_offset
        for action in decide(state(segments, stable=19), LocalLimits(5, None), NOW)
        if isinstance(action, SegmentUpload)
    ] == [0]


def test_records_from_the_future_stay() -> None:
    segments = [segment(0, 10, age_ms=-1000), segment(10, 20), segment(20, 30, active=True)]
    assert decide(state(segments), LocalLimits(0, None), NOW) == ()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, LocalLimits(None, None)),
        ({"local.retention.ms": -1, "local.retention.bytes": -1}, LocalLimits(None, None)),
        ({"retention.ms": 5, "retention.bytes": 5}, LocalLimits(None, None)),
        ({"local.retention.ms": 0}, LocalLimits(0, None)),
        ({"local.retention.bytes": 7}, LocalLimits(None, 7)),
        ({"local.retention.bytes": 7, "remote.storage.enable": True}, LocalLimits(None, 7)),
        ({"local.retention.ms": 0, "remote.storage.enable": False}, LocalLimits(None, None)),
    ],
)
def test_limits_of_a_topic(given: dict[str, int], expected: LocalLimits) -> None:
    found = local_limits(TopicConfig.of(given))
    assert found == expected
    assert found.moves == (expected != LocalLimits(None, None))


def test_a_segment_without_timestamps_moves_by_its_last_write() -> None:
    """It holds up those after it no longer than that."""
    untimed = segment(0, 10)._replace(
        max_timestamp=TimestampMs(-1), written_ms=TimestampMs(NOW - 50)
    )
    here = state([untimed, segment(10, 20, age_ms=500), segment(20, 30, active=True)])
    for age_ms, count in ((50, 0), (49, 2)):
        assert len(decide(here, LocalLimits(age_ms, None), NOW)) == count


def test_a_file_is_as_old_as_what_it_was_made_of() -> None:
    file = replace(tier_file(0, 10), created_ms=TimestampMs(9))
    assert file.largest_timestamp == 9
    assert replace(file, written_ms=TimestampMs(5)).largest_timestamp == 5
    timed = replace(file, written_ms=TimestampMs(5), max_timestamp=TimestampMs(0))
    assert timed.largest_timestamp == 0
