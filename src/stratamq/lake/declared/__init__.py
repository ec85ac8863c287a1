"""What a topic says its values are, and what columns that gives. Pure, and without pyarrow: the
place where topics are configured asks here too."""

from __future__ import annotations

from stratamq.lake.declared.columns import Column, Kind, columns_of, columns_text, parse_columns
from stratamq.lake.declared.evolution import (
    check_columns,
    check_follows,
    check_values,
    merged,
)
from stratamq.lake.declared.formats import Declared, ValueFormat, declared
from stratamq.lake.declared.schema import Field, parse_schema

__all__ = [
    "Column",
    "Declared",
    "Field",
    "Kind",
    "ValueFormat",
    "check_columns",
    "check_follows",
    "check_values",
    "columns_of",
    "columns_text",
    "declared",
    "merged",
    "parse_columns",
    "parse_schema",
]
