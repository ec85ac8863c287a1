"""Which schema may follow which: columns are added, never changed or taken away."""

from __future__ import annotations

from stratamq.lake.parquet.values.schema import Field
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
