"""Rows of a data frame as columns of records, and the topics they go to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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

from stratamq.lake.parquet.schema import BATCH_FIELDS
from stratamq.model.errors import InvalidConfig, InvalidRecord
from stratamq.model.record import TAG_HEADER

_BYTES = (BinaryType, StringType)
WRITABLE = "key, value, headers, tags, partition, topic"

_RECORDS = pa.schema([field for field in BATCH_FIELDS if field.name in ("key", "value", "headers")])
_HEADERS = _RECORDS.field("headers").type


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


def by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each. The option `topic` counts before the column, as in Spark's Kafka sink."""
    if topic is not None:
        yield topic, batch
        return
    names = batch.column("topic")
    if names.null_count:
        raise InvalidRecord("a row has no topic: the column 'topic' is null in it")
    for name in names.unique().to_pylist():
        yield name, batch.filter(pc.equal(names, name))


def records_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of records: `key`, `value`, and `headers`, tags among them."""
    bytewise = [_bytes_column(batch, name) for name in ("key", "value")]
    return pa.RecordBatch.from_arrays([*bytewise, _headers_column(batch)], schema=_RECORDS)


def _bytes_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.binary())
    return batch.column(name).cast(pa.binary())


def _headers_column(batch: pa.RecordBatch) -> pa.Array:
    """Most rows have none, and few have many: only where there are some, rows are looked at."""
    given = {name: batch.column(name) for name in ("headers", "tags") if name in batch.schema.names}
    nothing = [None] * batch.num_rows
    if not any(len(column.flatten()) for column in given.values()):
        return pa.array([()], _HEADERS).take(pa.array(np.zeros(batch.num_rows, np.int32)))
    headers, tags = (
        given[name].to_pylist() if name in given else nothing for name in ("headers", "tags")
    )
    return pa.array(list(map(_headers, headers, tags)), _HEADERS)


def _headers(
    headers: Sequence[Mapping[str, Any]] | None, tags: Sequence[bytes | str | None] | None
) -> list[tuple[bytes, bytes | None]]:
    """A row that was read from a topic has its tags among its headers too: they are not doubled."""
    own: list[tuple[bytes, bytes | None]] = []
    found: dict[bytes, None] = {}
    for one in headers or ():
        name, value = str(one["key"]).encode(), _bytes(one["value"])
        if name == TAG_HEADER and value is not None:
            found[value] = None
        else:
            own.append((name, value))
    found.update(dict.fromkeys(_bytes(tag) or b"" for tag in tags or ()))
    return [*own, *((TAG_HEADER, tag) for tag in found)]


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


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
