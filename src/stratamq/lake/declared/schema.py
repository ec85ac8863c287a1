"""A declared format and its schema: an Avro record, whatever the format, as a tree of fields.

Avro's language has names, types and nulls, and users who need a schema language know it already.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from stratamq.model.errors import InvalidConfig

DEPTH_MAX = 30
FIELDS_MAX = 2000
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

PRIMITIVES = {
    "boolean": "bool",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "null": "null",
}
LOGICAL = {("long", "timestamp-millis"), ("long", "timestamp-micros"), ("int", "date")}
NAMED = ("record", "enum", "fixed")


@dataclass(frozen=True, slots=True)
class Field:
    """One field, or an item, branch or symbol below one. `logical` says what a number stands for;
    `null_branch` which of a union's two branches is null, -1 where there is no union."""

    name: str
    kind: str
    children: tuple[Field, ...] = ()
    logical: str = ""
    null_branch: int = -1
    size: int = 0


def parse_schema(text: str) -> Field:
    """The record that `text` declares. InvalidConfig names the place and what is wrong with it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(f"lake.value.schema: not JSON: {error}") from None
    root = _Parser().parse("value", document, 0)
    if root.kind != "record" or root.null_branch >= 0:
        raise InvalidConfig("lake.value.schema: a value must be a record")
    if sum(1 for _ in walk(root)) > FIELDS_MAX:
        raise InvalidConfig(f"lake.value.schema: more than {FIELDS_MAX} fields")
    return root


def walk(field: Field) -> Iterator[Field]:
    yield field
    for child in field.children:
        yield from walk(child)


class _Parser:
    """Resolves names as it goes: a type may be used by name after its declaration."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: set[str] = set()

    def parse(self, name: str, schema: Any, depth: int) -> Field:
        if depth > DEPTH_MAX:
            raise InvalidConfig(f"lake.value.schema: {name}: nested more than {DEPTH_MAX} deep")
        if isinstance(schema, list):
            branches = [self.parse(name, branch, depth + 1) for branch in schema]
            nulls = [index for index, branch in enumerate(branches) if branch.kind == "null"]
            if len(branches) != 2 or len(nulls) != 1:
                return Field(name, "union", tuple(branches))
            other = branches[1 - nulls[0]]
            return Field(name, other.kind, other.children, other.logical, nulls[0], other.size)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return Field(name, PRIMITIVES[schema])
            short = schema.rpartition(".")[2]
            if short in self._open:
                raise InvalidConfig(f"lake.value.schema: {name}: {schema} contains itself")
            if short not in self._named:
                raise InvalidConfig(f"lake.value.schema: {name}: unknown type {schema!r}")
            return self._declared(name, self._named[short], depth)
        if not isinstance(schema, Mapping):
            raise InvalidConfig(f"lake.value.schema: {name}: {schema!r} is no type")
        kind = schema.get("type")
        if kind in NAMED:
            return self._declared(name, schema, depth)
        if kind == "array":
            return Field(name, "array", (self.parse("item", schema.get("items"), depth + 1),))
        if kind == "map":
            return Field(name, "map", (self.parse("item", schema.get("values"), depth + 1),))
        found = self.parse(name, kind, depth + 1)
        logical = str(schema.get("logicalType", ""))
        if (found.kind, logical) not in LOGICAL:
            return found  # Avro: an unknown logical type is the type below it
        return Field(name, found.kind, logical=logical)

    def _declared(self, name: str, schema: Mapping[str, Any], depth: int) -> Field:
        own = str(schema.get("name", "")).rpartition(".")[2]
        if not NAME.fullmatch(own):
            raise InvalidConfig(f"lake.value.schema: {name}: a {schema['type']} needs a name")
        self._named[own] = schema
        self._open.add(own)
        try:
            return getattr(self, f"_{schema['type']}")(name, schema, depth)  # type: ignore[no-any-return]
        finally:
            self._open.discard(own)

    def _record(self, name: str, schema: Mapping[str, Any], depth: int) -> Field:
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise InvalidConfig(f"lake.value.schema: {name}: a record needs a list of fields")
        children = []
        for field in fields:
            own = field.get("name") if isinstance(field, Mapping) else None
            if not isinstance(own, str) or not NAME.fullmatch(own):
                raise InvalidConfig(f"lake.value.schema: {name}: a field needs a name, not {own!r}")
            children.append(self.parse(own, field.get("type"), depth + 1))
        names = [child.name for child in children]
        for repeated in {found for found in names if names.count(found) > 1}:
            raise InvalidConfig(f"lake.value.schema: {name}: {repeated} is declared twice")
        return Field(name, "record", tuple(children))

    def _enum(self, name: str, schema: Mapping[str, Any], depth: int) -> Field:
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
            raise InvalidConfig(f"lake.value.schema: {name}: an enum needs a list of symbols")
        return Field(name, "enum", tuple(Field(symbol, "symbol") for symbol in symbols))

    def _fixed(self, name: str, schema: Mapping[str, Any], depth: int) -> Field:
        size = schema.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidConfig(f"lake.value.schema: {name}: a fixed needs a size")
        return Field(name, "fixed", size=size)


class ValueFormat(StrEnum):
    NONE = "none"
    JSON = "json"
    AVRO = "avro"


class Declared(NamedTuple):
    format: ValueFormat
    root: Field


def declared(value_format: str, schema: str = "") -> Declared | None:
    """Parse a topic's settings; None without a format. InvalidConfig says what is wrong with
    them."""
    if value_format == ValueFormat.NONE:
        return None
    if value_format not in tuple(ValueFormat):
        raise InvalidConfig(f"lake.value.format: {value_format!r} is not none, json or avro")
    if not schema.strip():
        raise InvalidConfig(f"lake.value.schema: {value_format} values need one")
    return Declared(ValueFormat(value_format), parse_schema(schema))
