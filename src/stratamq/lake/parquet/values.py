"""Values of a declared format as a struct of typed columns, next to the raw value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from stratamq.lake.declared import Field, ValueFormat, declared
from stratamq.lake.parquet._columns import KINDS, Lent, Typed
from stratamq.model.errors import InvalidConfig


class ParsedValues(NamedTuple):
    """A struct per value, null where it does not parse; and how often that was."""

    column: Any
    unparsed: int
    misfits: int


ARROW_TYPES = {
    "bool": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
}
RANGES = {
    "int": (-(1 << 31), (1 << 31) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
    "timestamp-millis": (-62135596800000, 253402300799999),
    "timestamp-micros": (-62135596800000000, 253402300799999999),
    "date": (-719162, 2932896),
}
"""Dates from year 1 to 9999: others make a table unreadable for some of its readers."""


NodeSpec = tuple[int, bytes, int, int, int, int, int, bool]
"""kind, name, first child, number of children, null branch, least, most, visible"""


def value_columns(
    value_format: str, schema: str = "", prefix_bytes: int = 0
) -> ValueColumns | None:
    """The columns that a topic's configs ask for. InvalidConfig says what is wrong with them.

    `prefix_bytes` lie before each value and are not of its format, such as the five bytes with
    which a schema registry's clients name the schema.
    """
    found = declared(value_format, schema)
    if found is None:
        return None
    return ValueColumns(found.format, found.root, schema, prefix_bytes)


class ValueColumns:
    """Parses JSON or Avro values, by the schema of their topic. A null value is a null struct."""

    def __init__(
        self, value_format: ValueFormat, root: Field, schema: str, prefix_bytes: int
    ) -> None:
        self._format = value_format
        self._schema = schema
        self._prefix_bytes = prefix_bytes
        self._avro = value_format is ValueFormat.AVRO
        self._root = _shape(root, self._avro)
        self._type = _arrow_type(self._root)
        if self._type is None:
            raise InvalidConfig("lake.value.schema: no field of it can be a column")

    @property
    def arrow_type(self) -> Any:
        """The struct that `parse` returns."""
        return self._type

    def parse(self, values: Any) -> ParsedValues:
        """Parse a whole binary array, columnar."""
        fields, specs = _flatten(self._root)
        typed = Typed(specs)
        valid, at, data = values.buffers()
        rows = len(values)
        assert values.offset == 0, "a whole row group is parsed at once"
        unparsed, misfits = typed.parse(
            rows, at, data or b"", valid, self._avro, self._prefix_bytes
        )
        buffers = dict(zip(map(id, fields), typed.take(), strict=True))
        return ParsedValues(_array(self._root, buffers, rows), unparsed, misfits)

    def describe(self, counts: Mapping[str, int]) -> str:
        """Return format, schema and counts, for the file's metadata."""
        return json.dumps({"format": self._format, "schema": self._schema, **counts})


def _shape(field: Field, avro: bool) -> Field:
    """JSON keeps as text what has no column; of Avro it is only read over."""
    if not avro and field.kind in ("array", "map", "union", "null"):
        return Field(field.name, "text")
    children = tuple(_shape(child, avro) for child in field.children)
    return Field(field.name, field.kind, children, field.logical, field.null_branch, field.size)


def _arrow_type(field: Field) -> Any:
    """None: no column."""
    if field.kind != "record":
        return ARROW_TYPES.get(field.logical or field.kind)
    children = [(child.name, _arrow_type(child)) for child in field.children]
    fields = [pa.field(name, kind) for name, kind in children if kind is not None]
    return pa.struct(fields) if fields else None


def _flatten(root: Field) -> tuple[list[Field], list[NodeSpec]]:
    """The tree, level by level, so that children lie together."""
    fields, seen = [root], [True]
    specs: list[NodeSpec] = []
    for number, field in enumerate(fields):  # it grows while it is walked
        visible = seen[number] and _arrow_type(field) is not None
        first = len(fields)
        fields += field.children
        seen += [visible and field.kind == "record"] * len(field.children)
        least, most = RANGES.get(field.logical or field.kind, (0, field.size))
        name = field.name.encode()
        numbers = first, len(field.children), field.null_branch, least, most
        specs.append((KINDS[field.kind], name, *numbers, visible))
    return fields, specs


def _array(field: Field, buffers: Mapping[int, Any], rows: int) -> Any:
    valid, data, places = buffers[id(field)]
    kind = _arrow_type(field)
    if field.kind == "record":
        children = [
            _array(child, buffers, rows)
            for child in field.children
            if _arrow_type(child) is not None
        ]
        return pa.StructArray.from_buffers(kind, rows, [pa.py_buffer(valid)], children=children)
    parts: list[Lent] = [valid, data] if places is None else [valid, places, data]
    return pa.Array.from_buffers(kind, rows, [pa.py_buffer(part) for part in parts])
