"""The columns of a topic: names and types as Spark's Kafka source has them, and tags."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from stratamq.model.errors import InvalidConfig

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("headers", HEADERS),
        StructField("tags", ArrayType(BinaryType())),
    ]
)

Arrays = Mapping[str, pa.Array]


def schema_of(columns: str | None) -> StructType:
    """What the option `columns` names, with commas, in its order; all without it."""
    if columns is None:
        return SCHEMA
    names = dict.fromkeys(name.strip() for name in columns.split(",") if name.strip())
    if not names:
        raise InvalidConfig("columns names no column")
    for name in names:
        if name not in SCHEMA.names:
            raise InvalidConfig(f"a topic has no column {name!r}, only {', '.join(SCHEMA.names)}")
    return StructType([SCHEMA[name] for name in names])


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark expects of the batches. InvalidConfig for a column that no topic has.

    A schema with fewer columns is welcome: what it leaves out is never made.
    """
    known = {field.name: field.dataType for field in SCHEMA.fields}
    for field in schema.fields:
        if known.get(field.name) != field.dataType:
            said = f"{field.name} {field.dataType.simpleString()}"
            raise InvalidConfig(f"a topic has no column {said!r}, only {SCHEMA.simpleString()}")
    return to_arrow_schema(schema, timezone="UTC")


def between(arrays: Arrays, start: int, stop: int) -> Arrays:
    """Cut a batch to the rows whose offsets are in start..stop - 1; they are in order."""
    offsets = memoryview(arrays["offset"].buffers()[1]).cast("q")
    rows = len(arrays["offset"])
    first, last = bisect_left(offsets, start, 0, rows), bisect_left(offsets, stop, 0, rows)
    if first == 0 and last == rows:
        return arrays
    return {name: array.slice(first, last - first) for name, array in arrays.items()}


def record_batch(arrays: Arrays, topic: str, partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """The kernel's columns as Spark's."""
    rows = len(arrays["offset"])
    made: dict[str, Callable[[], Any]] = {
        "topic": lambda: pa.repeat(pa.scalar(topic), rows),
        "partition": lambda: pa.repeat(pa.scalar(partition, pa.int32()), rows),
        "timestamp": lambda: arrays["timestamp"].cast(pa.timestamp("us", tz="UTC")),
        "headers": lambda: _headers(arrays["headers"], schema.field("headers").type),
        "tags": lambda: pa.ListArray.from_arrays(
            arrays["tags"].offsets, arrays["tags"].values, type=schema.field("tags").type
        ),
    }
    columns = [made.get(name, lambda name=name: arrays[name])() for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def timestamp_types(runs: Sequence[tuple[int, int]]) -> pa.Array:
    """Return how each row got its timestamp, from (type, rows) of batch after batch."""
    kinds = {kind for kind, _ in runs}
    if len(kinds) == 1:
        return pa.repeat(pa.scalar(kinds.pop(), pa.int32()), sum(rows for _, rows in runs))
    return pa.concat_arrays([pa.repeat(pa.scalar(kind, pa.int32()), rows) for kind, rows in runs])


def _headers(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Names are bytes in a record and text in Spark."""
    pairs = array.values
    names, values = pairs.field(0), pairs.field(1)
    structs = pa.StructArray.from_arrays([_text(names), values], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(array.offsets, structs, type=kind)


def _text(names: pa.Array) -> pa.Array:
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:  # nothing forces a name to be UTF-8
        return pa.array([name.as_py().decode(errors="replace") for name in names], pa.string())
