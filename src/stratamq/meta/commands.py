"""Commands as bytes, for nodes that submit them to a Meta Service elsewhere.

A command has its name, the version of its form and its fields as JSON. The fields follow from the
types of its dataclass, so that a new command needs nothing here. A field that is added to one needs
a default: a node of the release before does not send it. A change of meaning needs a new version.

| type                          | as JSON                                                       |
|-------------------------------|---------------------------------------------------------------|
| numbers, texts, flags, None   | themselves                                                    |
| enumerations                  | their value                                                   |
| tuples, frozen sets           | lists; sets are sorted                                        |
| mappings of texts             | objects                                                       |
| dataclasses, named tuples     | objects of their fields; those that have their default too    |
| TopicConfig                   | what the user gave: the rest follows from it                  |
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from stratamq.meta.apply import RULES, Command
from stratamq.model.errors import InvalidInput, UnsupportedFormat
from stratamq.model.topic import TopicConfig

VERSION = 1

_BY_NAME: dict[str, type] = {kind.__name__: kind for kind in RULES}


class EncodedCommand(NamedTuple):
    name: str
    version: int
    fields: bytes


def encode_command(command: Command) -> EncodedCommand:
    fields = json.dumps(_plain(command), separators=(",", ":")).encode()
    return EncodedCommand(type(command).__name__, VERSION, fields)


def decode_command(encoded: EncodedCommand) -> Command:
    """UnsupportedFormat for a command that this release does not know; InvalidInput for one that is
    damaged."""
    kind = _BY_NAME.get(encoded.name)
    if kind is None or encoded.version != VERSION:
        raise UnsupportedFormat(
            f"command {encoded.name!r} in version {encoded.version} is not known here:"
            " upgrade the meta nodes first"
        )
    try:
        command: Command = _value(kind, json.loads(encoded.fields))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput(f"command {encoded.name} is damaged: {error!r}") from error
    return command


def _plain(value: Any) -> Any:
    if isinstance(value, TopicConfig):
        return dict(value.given)
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _plain(one) for name, one in zip(value._fields, value, strict=True)}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, frozenset):
        return sorted(_plain(one) for one in value)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return value


def _value(kind: Any, plain: Any) -> Any:
    """What `_plain` was given, where that was of this type."""
    if kind is TopicConfig:
        return TopicConfig.of(plain, {plain.get("storage.type")})
    if origin := get_origin(kind):
        return _of_generic(origin, get_args(kind), plain)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(plain)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = _hints(kind)
        return kind(**{name: _value(hints[name], one) for name, one in plain.items()})
    return plain


def _of_generic(origin: Any, args: tuple[Any, ...], plain: Any) -> Any:
    if origin in (Union, types.UnionType):
        [kind, *others] = [one for one in args if one is not type(None)]
        return plain if plain is None or others else _value(kind, plain)
    if origin in (tuple, frozenset):
        return origin(_value(args[0], one) for one in plain)
    return {key: _value(args[1], one) for key, one in plain.items()}


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
