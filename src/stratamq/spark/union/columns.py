"""The columns of a union read. Both sides have the same, with the same types.

| column          | type                               |
|-----------------|------------------------------------|
| `key`           | binary                             |
| `value`         | binary                             |
| `topic`         | string                             |
| `partition`     | int                                |
| `offset`        | long                               |
| `timestamp`     | timestamp                          |
| `timestampType` | int                                |
| `headers`       | array of (key string, value binary)|
| `tags`          | array of binary                    |

After them come the fields of the value, where the topic declares a format: one column for each
field at the top, under its own name. A name that is taken already, by one of the columns above or
by a field that differs only in case, has `data_` before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from stratamq.lake.declared import Column
from stratamq.lake.parquet.schema import TYPED_COLUMN

MESSAGE_COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "tags",
)
PREFIX = f"{TYPED_COLUMN}_"

Typed = Literal["flat", "struct", "none"]
"""How the fields of declared values come: each a column, all in `data`, not at all."""

_TYPES: dict[str, t.DataType] = {
    "bool": t.BooleanType(),
    "int": t.IntegerType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "timestamp-millis": t.TimestampType(),
    "timestamp-micros": t.TimestampType(),
    "date": t.DateType(),
}

FILE_COLUMNS = (
    t.StructField("offset", t.LongType()),
    t.StructField("timestamp", t.TimestampType()),
    t.StructField("producer_timestamp", t.LongType()),
    t.StructField("key", t.BinaryType()),
    t.StructField("value", t.BinaryType()),
    t.StructField(
        "headers",
        t.ArrayType(
            t.StructType(
                [t.StructField("name", t.BinaryType()), t.StructField("value", t.BinaryType())]
            )
        ),
    ),
    t.StructField("tags", t.ArrayType(t.BinaryType())),
    t.StructField("partition", t.IntegerType()),
    t.StructField("aborted", t.BooleanType()),
)
"""Of a cold file, as far as a query may ask for them: see docs/formats/parquet.md."""


def struct_of(columns: Sequence[Column]) -> t.StructType:
    """The fields of `data`, in Spark's types."""
    return t.StructType([t.StructField(one.name, _type(one)) for one in columns])


def file_schema(columns: Sequence[Column]) -> t.StructType:
    """The schema that Spark gets, so that it reads no footer. Files without a column have nulls."""
    typed = [t.StructField(TYPED_COLUMN, struct_of(columns))] if columns else []
    return t.StructType([*FILE_COLUMNS, *typed])


class TypedColumn(NamedTuple):
    """`name` is its name in the table, `path` where it is in a file: `data` or `data.field`."""

    name: str
    path: str
    kind: t.DataType


def typed_columns(columns: Sequence[Column], typed: Typed) -> list[TypedColumn]:
    if typed == "none" or not columns:
        return []
    if typed == "struct":
        return [TypedColumn(TYPED_COLUMN, TYPED_COLUMN, struct_of(columns))]
    names = flat_names(columns)
    return [
        TypedColumn(names[one.name], f"{TYPED_COLUMN}.{one.name}", _type(one)) for one in columns
    ]


def flat_names(columns: Sequence[Column]) -> dict[str, str]:
    """Return the names of columns by their fields' names."""
    taken = set(MESSAGE_COLUMNS)
    names: dict[str, str] = {}
    for one in columns:
        name = one.name
        while name.lower() in taken:
            name = PREFIX + name
        taken.add(name.lower())
        names[one.name] = name
    return names


def quoted(*names: str) -> str:
    """A name in SQL, and one below it. Columns are said in SQL wherever many are: each call of a
    function of Spark's is several into the JVM."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def between(rows: DataFrame, since_ms: int | None, as_of_ms: int | None) -> DataFrame:
    """Keep the rows of that time; a row without a date is of no time."""
    if since_ms is not None:
        rows = rows.where(f.col("timestamp") >= f.timestamp_millis(f.lit(since_ms)))
    if as_of_ms is not None:
        rows = rows.where(f.col("timestamp") <= f.timestamp_millis(f.lit(as_of_ms)))
    return rows


def _type(column: Column) -> t.DataType:
    return struct_of(column.children) if column.children else _TYPES[column.kind]
