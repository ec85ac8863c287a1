"""Filters that the source takes over from Spark.

Each one is applied to the rows, so Spark need not do it again; in addition, those on topic,
partition, offset and time narrow what is read at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from stratamq.client import TopicPartition
from stratamq.spark.columns import Arrays
from stratamq.spark.options import ReadOptions

OFFSET_MAX = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

COMPARISONS: Mapping[type[Filter], str] = {
    EqualTo: "equal",
    GreaterThan: "greater",
    GreaterThanOrEqual: "greater_equal",
    LessThan: "less",
    LessThanOrEqual: "less_equal",
}
"""Arrow's names for them."""

BEFORE = (LessThan, LessThanOrEqual)
TAKEN: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
"""Columns whose filters are taken, and the types of what they are compared with."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`column` `kind` `values`, all of it picklable."""

    column: str
    kind: type[Filter]
    values: Sequence[Any]

    def holds(self, array: pa.Array) -> pa.Array:
        pc = _compute()
        if self.kind is IsNull:
            return pc.is_null(array)
        if self.kind is IsNotNull:
            return pc.is_valid(array)
        wanted = pa.array(list(self.values), TAKEN[self.column])
        if self.kind is In:
            return pc.is_in(array, value_set=wanted)
        return getattr(pc, COMPARISONS[self.kind])(array, wanted[0])

    def admits(self, value: object) -> bool:
        """Whether a row with this value in the column may pass."""
        return bool(self.holds(pa.array([value], TAKEN[self.column]))[0].as_py())


def condition_of(given: Filter) -> Condition | None:
    """None: Spark has to do it."""
    path: tuple[str, ...] = getattr(given, "attribute", ())
    if len(path) != 1 or path[0] not in TAKEN:
        return None
    kind = type(given)
    if kind in (IsNull, IsNotNull):
        return Condition(path[0], kind, ())
    if kind is not In and kind not in COMPARISONS:
        return None
    values = tuple(given.value) if kind is In else (given.value,)  # type: ignore[attr-defined]
    if any(value is None for value in values):
        return None  # a comparison with null is never true, but let Spark say so
    if path[0] == "key":
        values = tuple(bytes(value) for value in values)
    return Condition(path[0], kind, values)


def conditions_of(options: ReadOptions) -> tuple[Condition, ...]:
    """What the options `key` and `partitions` ask for."""
    key = () if options.key is None else (Condition("key", EqualTo, (options.key,)),)
    some = () if options.partitions is None else (Condition("partition", In, options.partitions),)
    return (*key, *some)


@dataclass(frozen=True, slots=True)
class FilterScope:
    """What the conditions leave to be read: offsets in start..stop - 1, nothing before a time."""

    start: int = 0
    stop: int = OFFSET_MAX
    since_ms: int | None = None


def scope_of(conditions: Sequence[Condition]) -> FilterScope:
    scope = FilterScope()
    for one in conditions:
        if one.column == "offset" and one.values:
            scope = _with_offsets(scope, one)
        elif one.column == "timestamp" and one.values and one.kind not in BEFORE:
            since_ms = min(_ms(value) for value in one.values)
            scope = replace(scope, since_ms=max(since_ms, scope.since_ms or 0))
    return scope


def is_wanted(place: TopicPartition, conditions: Sequence[Condition]) -> bool:
    """Whether any row of the partition may pass."""
    values = {"topic": place.topic, "partition": place.partition}
    return all(one.admits(values[one.column]) for one in conditions if one.column in values)


def passing(arrays: Arrays, conditions: Sequence[Condition], tag: bytes | None) -> Arrays:
    """The rows for which all of them hold, and that have the tag."""
    masks = [
        one.holds(arrays[one.column])
        for one in conditions
        if one.column not in ("topic", "partition")  # those hold for the whole partition
    ]
    if tag is not None:
        tags = arrays["tags"]
        pc = _compute()
        flat = pc.list_flatten(tags)
        owners = pc.list_parent_indices(tags)
        hits = owners.filter(pc.equal(flat, pa.scalar(tag, pa.binary())))
        rows = pa.array(range(len(tags)), owners.type)
        masks.append(pc.is_in(rows, value_set=hits))
    if not masks:
        return arrays
    keep = masks[0]
    for mask in masks[1:]:
        keep = _compute().and_kleene(keep, mask)
    return {name: array.filter(keep) for name, array in arrays.items()}


def _compute() -> Any:
    """Loaded by who has something to compute: most workers never need it, and start often."""
    import pyarrow.compute

    return pyarrow.compute


def _with_offsets(scope: FilterScope, one: Condition) -> FilterScope:
    least, most = min(one.values), max(one.values)
    match one.kind.__name__:
        case "GreaterThan":
            return replace(scope, start=max(scope.start, least + 1))
        case "GreaterThanOrEqual":
            return replace(scope, start=max(scope.start, least))
        case "LessThan":
            return replace(scope, stop=min(scope.stop, most))
        case "LessThanOrEqual":
            return replace(scope, stop=min(scope.stop, most + 1))
    return replace(scope, start=max(scope.start, least), stop=min(scope.stop, most + 1))


def _ms(value: datetime) -> int:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)
