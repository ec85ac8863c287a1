"""The typed columns that a schema gives, and which schema may follow which.

Columns are added, never changed or removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from stratamq.lake.declared.schema import Declared, Field, ValueFormat
from stratamq.model.errors import InvalidConfig, InvalidInput

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


def check_follows(older: Field, newer: Field) -> None:
    """InvalidConfig when a table written with `older` cannot be read on with `newer`.

    Every record keeps its fields, in their order and with their types, and may get new ones after
    them. Whether a field may be null is not asked: every column may.
    """
    _compare(older, newer, "value")


def _compare(older: Field, newer: Field, path: str) -> None:
    if (older.kind, older.logical) != (newer.kind, newer.logical):
        was, becomes = older.logical or older.kind, newer.logical or newer.kind
        raise InvalidConfig(f"lake.value.schema: {path} was {was} and cannot become {becomes}")
    if older.kind != "record":
        return
    for number, before in enumerate(older.children):
        if number >= len(newer.children) or newer.children[number].name != before.name:
            raise InvalidConfig(
                f"lake.value.schema: {path}.{before.name} is not where it was: fields stay, in "
                "their order, and new ones come after them"
            )
        _compare(before, newer.children[number], f"{path}.{before.name}")


def check_values(before: Declared | None, after: Declared | None, files: Iterable[str]) -> None:
    """Check that a topic may declare `after` where it declared `before`, with files of these
    columns.

    InvalidConfig says what is in the way. To declare nothing any more is always allowed: the
    columns stay, and are null from then on. Their names stay reserved for their types.
    """
    if after is None:
        return
    if before is not None and before.format is after.format:
        check_follows(before.root, after.root)
    columns = columns_of(after)
    check_columns(columns_of(before), columns)
    for text in files:
        check_columns(parse_columns(text), columns)


def check_columns(older: tuple[Column, ...], newer: tuple[Column, ...]) -> None:
    """InvalidConfig when a column of both is not the same in both."""
    merged((older, newer))


def merged(tables: Iterable[tuple[Column, ...]]) -> tuple[Column, ...]:
    """The columns of a table over files with these: each in the place where it came up first."""
    found: dict[str, Column] = {}
    for columns in tables:
        for column in columns:
            known = found.setdefault(column.name, column)
            if known is column:
                continue
            if bool(known.children) != bool(column.children) or known.kind != column.kind:
                was, becomes = known.kind or "record", column.kind or "record"
                raise InvalidConfig(
                    f"lake.value.schema: the table's column {column.name} is {was} and cannot "
                    f"become {becomes}"
                )
            children = merged((known.children, column.children))
            found[column.name] = Column(known.name, known.kind, children)
    return tuple(found.values())
