"""Rows of a data frame as records, each with the topic and partition it goes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from stratamq.model.errors import InvalidConfig, InvalidRecord
from stratamq.model.record import TAG_HEADER, Record

_BYTES = (BinaryType, StringType)
WRITABLE = "key, value, headers, tags, partition, topic"


class Row(NamedTuple):
    topic: str
    partition: int | None
    """None: by the key, or any."""
    record: Record


def check_schema(schema: StructType, topic: str | None) -> None:
    """InvalidConfig for columns that a record cannot have, and for a row that would go nowhere."""
    kinds = {field.name: field.dataType for field in schema.fields}
    for name, kind in kinds.items():
        if name not in _ALLOWED:
            raise InvalidConfig(f"a topic cannot take the column {name!r}, only {WRITABLE}")
        if not _ALLOWED[name](kind):
            raise InvalidConfig(f"the column {name!r} cannot be {kind.simpleString()}")
    if "value" not in kinds:
        raise InvalidConfig("a column 'value' is needed, of type binary or string")
    if topic is None and "topic" not in kinds:
        raise InvalidConfig("which topic? An option 'topic' or a column 'topic' has to say")


def rows_of(batch: pa.RecordBatch, topic: str | None) -> Iterator[Row]:
    """The option `topic` counts before the column, as in Spark's Kafka sink."""
    count = batch.num_rows
    columns: Mapping[str, Sequence[Any]] = {
        name: batch.column(name).to_pylist() for name in batch.schema.names
    }
    nothing: Sequence[Any] = [None] * count

    def column(name: str) -> Sequence[Any]:
        return columns.get(name, nothing)

    topics = nothing if topic is not None else column("topic")
    for named, partition, key, value, headers, tags in zip(
        *(topics, column("partition"), column("key"), column("value")),
        *(column("headers"), column("tags")),
        strict=True,
    ):
        goal = topic or named
        if goal is None:
            raise InvalidRecord("a row has no topic: the column 'topic' is null in it")
        own, more = _headers(headers)
        record = Record(
            value=_bytes(value),
            key=_bytes(key),
            headers=own,
            tags=tuple(dict.fromkeys((*more, *(_bytes(tag) or b"" for tag in tags or ())))),
        )
        yield Row(goal, partition, record)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _headers(
    headers: Sequence[Mapping[str, Any]] | None,
) -> tuple[tuple[tuple[bytes, bytes | None], ...], list[bytes]]:
    """A row that was read from a topic has its tags among its headers too: they are not doubled."""
    own, tags = [], []
    for one in headers or ():
        name, value = str(one["key"]).encode(), _bytes(one["value"])
        if name == TAG_HEADER and value is not None:
            tags.append(value)
        else:
            own.append((name, value))
    return tuple(own), tags


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    return set(fields) == {"key", "value"} and (
        isinstance(fields["key"], StringType) and isinstance(fields["value"], _BYTES)
    )


_ALLOWED: Mapping[str, Callable[[DataType], bool]] = {
    "key": lambda kind: isinstance(kind, _BYTES),
    "value": lambda kind: isinstance(kind, _BYTES),
    "headers": _is_headers,
    "tags": lambda kind: isinstance(kind, ArrayType) and isinstance(kind.elementType, _BYTES),
    "partition": lambda kind: isinstance(kind, IntegerType | ShortType | LongType),
    "topic": lambda kind: isinstance(kind, StringType),
}
