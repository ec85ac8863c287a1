"""Filters that are taken from Spark: which ones, what they leave to be read, which rows pass."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from stratamq.client import TopicPartition
from stratamq.spark.filters import Condition, condition_of, is_wanted, passing, scope_of

T0 = datetime(2024, 5, 1, tzinfo=UTC)
T0_MS = int(T0.timestamp() * 1000)


def taken(*filters: Filter) -> list[Condition]:
    found = [condition_of(one) for one in filters]
    assert None not in found
    return [one for one in found if one is not None]


@pytest.mark.parametrize(
    "given",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        EqualTo(("key",), None),
        EqualNullSafe(("key",), b"x"),
        Not(EqualTo(("key",), b"x")),
        StringStartsWith(("topic",), "x"),
        IsNull(("value",)),
    ],
)
def test_what_spark_does_itself(given: Filter) -> None:
    assert condition_of(given) is None


@pytest.mark.parametrize(
    ("given", "start", "stop"),
    [
        (GreaterThan(("offset",), 5), 6, None),
        (GreaterThanOrEqual(("offset",), 5), 5, None),
        (LessThan(("offset",), 5), 0, 5),
        (LessThanOrEqual(("offset",), 5), 0, 6),
        (EqualTo(("offset",), 5), 5, 6),
        (In(("offset",), (9, 5)), 5, 10),
        (IsNotNull(("offset",)), 0, None),
    ],
)
def test_offsets_narrow_what_is_read(given: Filter, start: int, stop: int | None) -> None:
    scope = scope_of(taken(given))
    assert (scope.start, scope.stop) == (start, stop or (1 << 63) - 1)


def test_the_latest_of_lower_bounds_in_time_counts_and_upper_bounds_do_not() -> None:
    later = datetime(2024, 5, 2, tzinfo=UTC)
    scope = scope_of(taken(GreaterThan(("timestamp",), T0), LessThan(("timestamp",), later)))
    assert scope.since_ms == T0_MS
    assert scope_of(taken(LessThan(("timestamp",), T0))).since_ms is None
    both = (GreaterThan(("timestamp",), later), GreaterThanOrEqual(("timestamp",), T0))
    assert scope_of(taken(*both)).since_ms == T0_MS + 86_400_000


def test_partitions_and_topics_are_left_out_as_a_whole() -> None:
    conditions = taken(In(("partition",), (0, 2)), EqualTo(("topic",), "a"))
    wanted = [TopicPartition(t, p) for t in "ab" for p in range(3)]
    assert [place for place in wanted if is_wanted(place, conditions)] == [("a", 0), ("a", 2)]


ROWS: dict[str, Any] = {
    "offset": pa.array([1, 2, 3, 4], pa.int64()),
    "key": pa.array([b"a", None, b"b", b"a"], pa.binary()),
    "timestamp": pa.array([T0_MS, T0_MS + 1, None, T0_MS], pa.timestamp("ms", tz="UTC")),
    "tags": pa.array([[b"a"], [b"a/b", b"x"], [], [b"x", b"a"]], pa.list_(pa.binary())),
}


@pytest.mark.parametrize(
    ("given", "offsets"),
    [
        (EqualTo(("key",), b"a"), [1, 4]),
        (EqualTo(("key",), bytearray(b"a")), [1, 4]),
        (In(("key",), (b"b", b"c")), [3]),
        (IsNull(("key",)), [2]),
        (IsNotNull(("key",)), [1, 3, 4]),
        (GreaterThan(("timestamp",), T0), [2]),
        (LessThanOrEqual(("timestamp",), T0), [1, 4]),
        (LessThan(("offset",), 3), [1, 2]),
    ],
)
def test_rows_that_pass(given: Filter, offsets: list[int]) -> None:
    assert passing(ROWS, taken(given), None)["offset"].to_pylist() == offsets


def test_a_tag_is_matched_whole() -> None:
    assert passing(ROWS, [], b"a")["offset"].to_pylist() == [1, 4]
    assert passing(ROWS, taken(EqualTo(("offset",), 2)), b"x")["offset"].to_pylist() == [2]
    sliced = {name: array.slice(1, 3) for name, array in ROWS.items()}
    assert passing(sliced, [], b"a")["offset"].to_pylist() == [4]
