"""Values of a declared format: a schema, and typed columns made by it."""

from __future__ import annotations

from stratamq.lake.declared import Field, ValueFormat, check_follows, parse_schema
from stratamq.lake.parquet.values.columns import value_columns
from stratamq.lake.parquet.values.contract import ParsedValues, ValueColumns

__all__ = [
    "Field",
    "ParsedValues",
    "ValueColumns",
    "ValueFormat",
    "check_follows",
    "parse_schema",
    "value_columns",
]
