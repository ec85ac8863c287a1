"""Values of a declared format: a schema, and typed columns made by it."""

from __future__ import annotations

from stratamq.lake.parquet.values.columns import ValueFormat, value_columns
from stratamq.lake.parquet.values.contract import ParsedValues, ValueColumns
from stratamq.lake.parquet.values.evolution import check_follows
from stratamq.lake.parquet.values.schema import Field, parse_schema

__all__ = [
    "Field",
    "ParsedValues",
    "ValueColumns",
    "ValueFormat",
    "check_follows",
    "parse_schema",
    "value_columns",
]
