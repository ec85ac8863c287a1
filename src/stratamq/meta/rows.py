"""How entities become rows of a key-value store: the bytes are described in docs/formats/meta.md.

A key is one letter for the kind and the entity's own key; a value is a JSON object with its
version. Each subject declares the `RowFormat` of its entities, `store` puts them together.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from stratamq.model.errors import StorageError

VERSION = 1
"""Of every row's value. A change of meaning needs a new number and a reader for the old one."""

Fields = dict[str, Any]


def plain_fields(entity: Any) -> Fields:
    """The fields of a dataclass whose values JSON can hold."""
    return {name: getattr(entity, name) for name in entity.__dataclass_fields__}


class RowFormat(NamedTuple):
    """Rows of one kind of entity. `key` gives what follows the letter; `entity` reads back what
    `fields` gave."""

    kind: type
    letter: bytes
    key: Callable[[Any], bytes]
    entity: Callable[[Fields], Any]
    fields: Callable[[Any], Fields] = plain_fields


def text_key(name: str) -> bytes:
    """Names that clients choose may hold any character, lone surrogates too."""
    return name.encode("utf-8", "surrogatepass")


def list_key(*names: str | None) -> bytes:
    """A list as JSON: names may hold any character, so nothing else separates them."""
    return json.dumps(names, separators=(",", ":")).encode()


def dump(fields: Fields) -> bytes:
    return json.dumps({"v": VERSION, **fields}, separators=(",", ":")).encode()


def parse(key: bytes, value: bytes) -> Fields:
    """A row's fields; StorageError when they were written by a later version or are damaged."""
    try:
        fields: Fields = json.loads(value)
        version = fields.pop("v")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise StorageError(f"meta row {key!r} is damaged: {value[:80]!r}") from None
    if version != VERSION:
        raise StorageError(f"meta row {key!r} has version {version}; this program reads {VERSION}")
    return fields
