"""The typed columns of a file, as a text: the same text for the same columns.

A file keeps the columns it was written with. `["id","long"]` is a column, and a struct has a list
of columns in place of its type:

    [["id","long"],["customer",[["name","string"],["since","date"]]]]
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from stratamq.lake.declared.formats import Declared, ValueFormat
from stratamq.lake.declared.schema import Field
from stratamq.model.errors import InvalidInput

Kind = str

KINDS: dict[str, Kind] = {
    "bool": "bool",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "enum": "string",
    "bytes": "binary",
    "fixed": "binary",
    "timestamp-millis": "timestamp-millis",
    "timestamp-micros": "timestamp-micros",
    "date": "date",
}
"""From a schema's types to those of columns. What is missing here has none of its own."""

AS_TEXT = ("array", "map", "union", "null")
"""JSON keeps these as they stand; Avro has no text of them to keep."""


class Column(NamedTuple):
    """A struct has columns below it and no kind."""

    name: str
    kind: Kind = ""
    children: tuple[Column, ...] = ()


def columns_of(found: Declared | None) -> tuple[Column, ...]:
    """The fields of `data`, in their order."""
    if found is None:
        return ()
    root = _column(found.root, found.format)
    return root.children if root else ()


def columns_text(columns: tuple[Column, ...]) -> str:
    """Empty without columns."""
    return json.dumps(_plain(columns), separators=(",", ":")) if columns else ""


def parse_columns(text: str) -> tuple[Column, ...]:
    """The columns of a text that `columns_text` made; InvalidInput if it did not."""
    if not text:
        return ()
    try:
        return _parsed(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        raise InvalidInput(f"columns: cannot read {text[:80]!r}") from None


def _column(field: Field, value_format: ValueFormat) -> Column | None:
    if field.kind == "record":
        found = (_column(child, value_format) for child in field.children)
        children = tuple(one for one in found if one is not None)
        return Column(field.name, "", children) if children else None
    if field.kind in AS_TEXT:
        return Column(field.name, "string") if value_format is ValueFormat.JSON else None
    return Column(field.name, KINDS[field.logical or field.kind])


def _plain(columns: tuple[Column, ...]) -> list[list[Any]]:
    return [[one.name, _plain(one.children) if one.children else one.kind] for one in columns]


def _parsed(plain: list[Any]) -> tuple[Column, ...]:
    columns = []
    for name, kind in plain:
        if isinstance(kind, list):
            columns.append(Column(str(name), "", _parsed(kind)))
        elif kind in KINDS.values():
            columns.append(Column(str(name), kind))
        else:
            raise ValueError(kind)
    return tuple(columns)
