"""The error codes that a response carries, wherever its fields have them.

A function is generated for each kind of response at its first use: it looks at the fields that can
hold a code and at no others, since it is called for every answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratamq.wire.kafka.protocol.schema import Array, fields_of

NAMES = ("error_code", "partition_error_code")

Finder = Callable[[Any], list[int]]


class Finders(dict[type, Finder]):
    def __missing__(self, response_type: type) -> Finder:
        made = self[response_type] = _finder(response_type)
        return made


ERROR_CODES = Finders()
"""By the class of a response: finds all codes that are not NONE, in the order of the wire."""


def _finder(response_type: type) -> Finder:
    body = "".join(f"    {line}\n" for line in _lines(response_type, "response", 0))
    namespace: dict[str, Any] = {}
    exec(f"def find(response):\n    found = []\n{body}    return found\n", namespace)
    made: Finder = namespace["find"]
    return made


def _lines(struct_type: type, name: str, depth: int) -> list[str]:
    """Nothing for a struct without a code in it."""
    lines = []
    for field in fields_of(struct_type):
        value = f"{name}.{field.name}"
        if field.name in NAMES:
            lines.append(f"if {value}: found.append({value})")
        elif isinstance(field.kind, Array) and isinstance(field.kind.element, type):
            inner = _lines(field.kind.element, f"item_{depth}", depth + 1)
            if inner:
                lines.append(f"for item_{depth} in {value} or ():")
                lines += [f"    {line}" for line in inner]
        elif isinstance(field.kind, type):
            inner = _lines(field.kind, f"item_{depth}", depth + 1)
            if inner:
                lines.append(f"if (item_{depth} := {value}) is not None:")
                lines += [f"    {line}" for line in inner]
    return lines
