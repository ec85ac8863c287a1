"""Typed values once more, in plain Python: what a document is, by the schema of its topic."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

from stratamq.lake.declared.schema import Field

LIMITS = {
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "timestamp-millis": (-62135596800000, 253402300799999),
    "timestamp-micros": (-62135596800000000, 253402300799999999),
    "date": (-719162, 2932896),
}


class Unparsed(Exception):
    """Not a JSON object."""


class Misfit(Exception):
    """Not of its field's type."""


class Raw(str):
    """A number as it stands in the text."""


def load(value: bytes) -> dict[str, Any]:
    try:
        document = json.loads(
            value.decode("utf-8"), parse_int=Raw, parse_float=Raw, parse_constant=_refuse
        )
    except (ValueError, RecursionError) as error:
        raise Unparsed from error
    if not isinstance(document, dict):
        raise Unparsed
    return document


def _refuse(name: str) -> None:
    raise ValueError(name)


def row_of(root: Field, value: bytes | None) -> tuple[dict[str, Any] | None, int, int]:
    """The row, and whether it counts as unparsed or as a misfit."""
    if value is None:
        return None, 0, 0
    try:
        document = load(value)
    except Unparsed:
        return None, 1, 0
    misfits: list[str] = []
    row = _record(root, document, misfits)
    return row, 0, int(bool(misfits))


def _record(field: Field, document: dict[str, Any], misfits: list[str]) -> dict[str, Any]:
    row = {}
    for child in field.children:
        row[child.name] = None
        given = document.get(child.name)
        if given is None:
            continue
        try:
            row[child.name] = _fit(child, given, misfits)
        except Misfit:
            misfits.append(child.name)
    return row


def _fit(field: Field, given: Any, misfits: list[str]) -> Any:
    if field.kind == "record":
        if not isinstance(given, dict):
            raise Misfit
        return _record(field, given, misfits)
    if field.kind == "bool":
        if not isinstance(given, bool):
            raise Misfit
        return given
    if field.kind in ("string", "enum", "bytes"):
        return _text(field, given)
    if field.kind in ("array", "map", "union"):
        return "any"  # as it stands: the caller compares the text
    if not isinstance(given, Raw):
        raise Misfit
    return _number(field, given)


def _text(field: Field, given: Any) -> str | bytes:
    if not isinstance(given, str) or isinstance(given, Raw):
        raise Misfit
    try:
        data = given.encode("utf-8")
    except UnicodeEncodeError:
        raise Misfit from None
    return data if field.kind == "bytes" else given


def _number(field: Field, given: str) -> int | float:
    if field.kind in ("int", "long"):
        if set(given) & set(".eE"):
            raise Misfit
        least, most = LIMITS[field.logical or field.kind]
        if not least <= int(given) <= most:
            raise Misfit
        return int(given)
    found = float(given)
    if math.isinf(found):
        raise Misfit
    if field.kind == "double":
        return found
    try:
        return float(struct.unpack("<f", struct.pack("<f", found))[0])
    except OverflowError:
        raise Misfit from None
