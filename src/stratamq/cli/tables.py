"""Tables and sizes as plain text. Pure.

A table is as wide as its longest cells: nothing is cut off, so that `grep` and `awk` see all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Cell = str | int | None
NOTHING = "-"


def table(titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> list[str]:
    """Lines. Columns of numbers are aligned on the right; None is a dash."""
    body = [list(row) for row in rows]
    numeric = [
        any(isinstance(row[at], int) for row in body)
        and all(isinstance(row[at], int | None) for row in body)
        for at in range(len(titles))
    ]
    cells = [[title.upper() for title in titles], *([_text(cell) for cell in row] for row in body)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]


def _text(cell: Cell) -> str:
    """On one line, whatever is in it: names come from other people."""
    if cell is None:
        return NOTHING
    text = str(cell)
    return text if text.isprintable() else repr(text)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(one, widths, strict=True)).rstrip()
        for one in rows
    ]


def sized(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
