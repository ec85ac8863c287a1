"""Index files against brute force."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from stratamq.log.sidecar import (
    OffsetPoint,
    OffsetSidecar,
    TimePoint,
    TimeSidecar,
    encode_offset_points,
    encode_time_points,
)
from stratamq.model.types import Offset, Position, TimestampMs

BASE = Offset(1 << 40)
relative = st.integers(0, (1 << 31) - 1)
positions = st.integers(0, (1 << 31) - 1)
stamps = st.integers(0, 1 << 45)


def ascending(one: st.SearchStrategy[int], size: int = 30) -> st.SearchStrategy[list[int]]:
    return st.sets(one, max_size=size).map(sorted)


@st.composite
def offset_points(draw: st.DrawFn) -> list[OffsetPoint]:
    lasts, places = draw(ascending(relative)), draw(ascending(positions))
    return [
        OffsetPoint(Offset(BASE + last), Position(place))
        for last, place in zip(lasts, places, strict=False)
    ]


@st.composite
def time_points(draw: st.DrawFn) -> list[TimePoint]:
    times, offsets = draw(ascending(stamps)), draw(ascending(relative))
    return [
        TimePoint(TimestampMs(time), Offset(BASE + offset))
        for time, offset in zip(times, offsets, strict=False)
    ]


@given(offset_points())
def test_offset_points_come_back(points: list[OffsetPoint]) -> None:
    data = encode_offset_points(BASE, points)
    found = OffsetSidecar(BASE, data)
    assert len(data) == 8 * len(points)
    assert [found.point(number) for number in range(len(found))] == points


@given(time_points())
def test_time_points_come_back(points: list[TimePoint]) -> None:
    data = encode_time_points(BASE, points)
    found = TimeSidecar(BASE, data)
    assert len(data) == 12 * len(points)
    assert [found.point(number) for number in range(len(found))] == points
    assert found.last() == (points[-1] if points else None)


@given(offset_points(), st.data())
def test_floor_of_an_offset(points: list[OffsetPoint], data: st.DataObject) -> None:
    near = [point.last_offset + late for point in points for late in (-1, 0, 1)]
    wanted = Offset(data.draw(st.sampled_from([BASE, *near]) | relative.map(BASE.__add__)))
    below = [point for point in points if point.last_offset <= wanted]
    found = OffsetSidecar(BASE, encode_offset_points(BASE, points)).floor(wanted)
    assert found == (below[-1] if below else None)


@given(time_points(), st.data())
def test_floor_of_a_time(points: list[TimePoint], data: st.DataObject) -> None:
    near = [point.timestamp + late for point in points for late in (-1, 0, 1)]
    wanted = TimestampMs(data.draw(st.sampled_from([0, *near]) | stamps))
    below = [point for point in points if point.timestamp < wanted]
    found = TimeSidecar(BASE, encode_time_points(BASE, points)).floor(wanted)
    assert found == (below[-1] if below else None)


def test_the_bytes_are_those_of_kafka() -> None:
    """OffsetIndex: relative offset, position; TimeIndex: timestamp, relative offset; big-endian."""
    offsets = encode_offset_points(BASE, [OffsetPoint(Offset(BASE + 5), Position(900))])
    times = encode_time_points(BASE, [TimePoint(TimestampMs(77), Offset(BASE + 5))])
    assert offsets == struct.pack(">ii", 5, 900)
    assert times == struct.pack(">qi", 77, 5)
