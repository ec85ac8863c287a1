"""`format("stratamq")` with one column more: `data`, the fields of the value.

Parsed where the messages arrive, so that no second Python process has to be passed through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_type

from stratamq.lake.parquet.schema import TYPED_COLUMN
from stratamq.lake.parquet.values import value_columns
from stratamq.spark.failing import plainly
from stratamq.spark.names import FORMAT
from stratamq.spark.source import BatchReader, StrataMQSource

TYPED_FORMAT = f"{FORMAT}-typed"
VALUE_FORMAT, VALUE_SCHEMA = "valueFormat", "valueSchema"


class TypedSource(StrataMQSource):
    """For union reads, which say what the columns are. Its last one is `data`."""

    @classmethod
    def name(cls) -> str:
        return TYPED_FORMAT

    @plainly
    def reader(self, schema: t.StructType) -> DataSourceReader:
        given = dict(self.options)
        values = given.pop(VALUE_FORMAT.lower(), "none"), given.pop(VALUE_SCHEMA.lower(), "")
        *message, data = schema.fields
        assert data.name == TYPED_COLUMN, "the column of the values comes last"
        source = StrataMQSource(given)
        inner = source.reader(t.StructType(message))
        assert isinstance(inner, BatchReader)
        return _Reader(inner, values, to_arrow_type(data.dataType, timezone="UTC"))


class _Reader(DataSourceReader):
    def __init__(self, inner: BatchReader, values: tuple[str, str], kind: Any) -> None:
        self._inner, self._values, self._kind = inner, values, kind

    def partitions(self) -> list[InputPartition]:
        return self._inner.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        columns = value_columns(*self._values)
        for batch in self._inner.read(partition):
            values = batch.column("value")
            found = columns.parse(_whole(values)).column if columns else None
            yield batch.append_column(TYPED_COLUMN, fitted(found, self._kind, len(values)))


def _whole(values: Any) -> Any:
    """From the beginning of its buffers, as the kernel wants it."""
    return pa.concat_arrays([values, values[:0]]) if values.offset else values


def fitted(found: Any, kind: Any, rows: int) -> Any:
    """`found` with the fields of `kind`: nulls where it has not got one."""
    if found is None:
        return pa.nulls(rows, kind)
    if not pa.types.is_struct(kind):
        return found.cast(kind)
    have = {found.type.field(at).name: found.field(at) for at in range(found.type.num_fields)}
    children = [fitted(have.get(field.name), field.type, rows) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=found.is_null())


def value_options(value_format: str, value_schema: str) -> Mapping[str, str]:
    return {VALUE_FORMAT: value_format, VALUE_SCHEMA: value_schema}
