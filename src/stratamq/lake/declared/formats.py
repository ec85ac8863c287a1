"""A value format with its schema, as a topic's settings name them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stratamq.lake.declared.schema import Field, parse_schema
from stratamq.model.errors import InvalidConfig


class ValueFormat(StrEnum):
    NONE = "none"
    JSON = "json"
    AVRO = "avro"


class Declared(NamedTuple):
    format: ValueFormat
    root: Field


def declared(value_format: str, schema: str = "") -> Declared | None:
    """What the settings say; None without a format. InvalidConfig says what is wrong with them."""
    if value_format == ValueFormat.NONE:
        return None
    if value_format not in tuple(ValueFormat):
        raise InvalidConfig(f"lake.value.format: {value_format!r} is not none, json or avro")
    if not schema.strip():
        raise InvalidConfig(f"lake.value.schema: {value_format} values need one")
    return Declared(ValueFormat(value_format), parse_schema(schema))
