"""Which schema may follow which: columns are added, never changed or taken away."""

from __future__ import annotations

from collections.abc import Iterable

from stratamq.lake.declared.columns import Column, columns_of, parse_columns
from stratamq.lake.declared.formats import Declared
from stratamq.lake.declared.schema import Field
from stratamq.model.errors import InvalidConfig


def check_follows(older: Field, newer: Field) -> None:
    """InvalidConfig when a table written with `older` cannot be read on with `newer`.

    Every record keeps its fields, in their order and with their types, and may get new ones behind
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
                "their order, and new ones come behind them"
            )
        _compare(before, newer.children[number], f"{path}.{before.name}")


def check_values(before: Declared | None, after: Declared | None, files: Iterable[str]) -> None:
    """Whether a topic may declare `after` behind `before`, with files that have these columns.

    InvalidConfig says what is in the way. To declare nothing any more is always allowed: the
    columns stay, and are null from then on. They are kept free for what they were.
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
            if known is not column:
                found[column.name] = _united(known, column)
    return tuple(found.values())


def _united(one: Column, other: Column) -> Column:
    if bool(one.children) != bool(other.children) or one.kind != other.kind:
        was, becomes = one.kind or "record", other.kind or "record"
        raise InvalidConfig(
            f"lake.value.schema: the table's column {one.name} is {was} and cannot become {becomes}"
        )
    return Column(one.name, one.kind, merged((one.children, other.children)))
