"""What a topic says its values are, and what columns that gives. Pure, and without pyarrow: the
place where topics are configured asks here too."""

from __future__ import annotations

from stratamq.lake.declared.columns import (
    Column,
    Kind,
    check_columns,
    check_follows,
    check_values,
    columns_of,
    columns_text,
    merged,
    parse_columns,
)
from stratamq.lake.declared.schema import Declared, Field, ValueFormat, declared, parse_schema

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
