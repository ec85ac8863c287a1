"""Our messages as kio has them, and back.

kio gives some numbers a meaning: error codes are an enum, times are timedelta and datetime, a UUID
of zeros is None. So it cannot hold every value; `narrow` keeps to those it can.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from stratamq.wire.kafka.protocol.schema import Array, FieldSpec, Kind, Role, fields_of, message_of
from tests.wire.protocol.support import signed

DATA_NAMES = {
    "ConsumerProtocolSubscription": "consumer_protocol_subscription",
    "ConsumerProtocolAssignment": "consumer_protocol_assignment",
}


@cache
def twin_of(message_type: type, version: int) -> type[Any]:
    message = message_of(message_type)
    if message.role is Role.DATA:
        return load_entity_schema(DATA_NAMES[message.name], version, EntityType.data)
    load = load_request_schema if message.role is Role.REQUEST else load_response_schema
    return load(message.key, version)


def kio_decode(message_type: type, version: int, data: bytes) -> Any:
    entity, size = entity_reader(twin_of(message_type, version))(data, 0)
    assert size == len(data), "kio read another length"
    return entity


def kio_encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


# -- shapes ----------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """A field, told in words that both sides share."""

    name: str
    type: str | tuple[Any, ...]
    is_array: bool
    nullable: bool
    tag: int | None


_ALIASES = {
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
    "error_code": "int16",
}
_NULL_MEANS_A_NUMBER = ("uuid", "datetime_i64")


def our_shape(struct_type: type, version: int) -> tuple[Shape, ...]:
    return tuple(
        Shape(
            name=field.name.removesuffix("_ms"),
            type=_our_type(field.kind, version),
            is_array=isinstance(field.kind, Array),
            nullable=version in field.nullable,
            tag=field.tag,
        )
        for field in fields_of(struct_type)
        if version in field.versions
    )


def _our_type(kind: Kind, version: int) -> str | tuple[Any, ...]:
    element = kind.element if isinstance(kind, Array) else kind
    return our_shape(element, version) if isinstance(element, type) else element.name


def kio_shape(struct_type: type[Any]) -> tuple[Shape, ...]:
    hints = get_type_hints(struct_type)
    return tuple(_kio_field(field, hints[field.name]) for field in fields(struct_type))


def _kio_field(field: Any, hint: Any) -> Shape:
    hint, nullable = _without_none(hint)
    is_array = get_origin(hint) is tuple
    element = _without_none(get_args(hint)[0])[0] if is_array else hint
    kind = None if is_dataclass(element) else field.metadata["kafka_type"]
    return Shape(
        name=field.name.removesuffix("_ms"),
        type=kio_shape(element) if kind is None else _ALIASES.get(kind, kind),
        is_array=is_array,
        nullable=nullable and (is_array or kind not in _NULL_MEANS_A_NUMBER),
        tag=field.metadata.get("tag"),
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (UnionType, Union):
        return hint, False
    (some,) = [each for each in get_args(hint) if each is not NoneType]
    return some, True


# -- values ----------------------------------------------------------------------------------------

_SECOND = 1000


def narrow(_: type, field: FieldSpec) -> st.SearchStrategy[Any] | None:
    """Values that kio can hold."""
    if field.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in KioErrorCode])
    if field.name in ("log_append_time_ms", "transaction_start_time_ms"):
        return st.integers(0, 1 << 32).map(lambda seconds: seconds * _SECOND)
    if field.name in ("retention_time_ms", "session_lifetime_ms"):
        return signed(40)
    return None


def from_kio(entity: Any, struct_type: type, version: int) -> Any:
    """A kio entity as our message; the fields are matched by their order."""
    present = [field for field in fields_of(struct_type) if version in field.versions]
    values = [getattr(entity, field.name) for field in fields(entity)]
    given = {
        field.name: _from_kio(value, field.kind, version)
        for field, value in zip(present, values, strict=True)
    }
    return struct_type(**given)


def _from_kio(value: Any, kind: Kind, version: int) -> Any:
    if isinstance(kind, Array):
        if value is None:
            return None
        return [_from_kio(each, kind.element, version) for each in value]
    if isinstance(kind, type):
        return None if value is None else from_kio(value, kind, version)
    if kind.name == "uuid":
        return bytes(16) if value is None else value.bytes
    return _as_number(value)


_NUMBERS: dict[type, Callable[[Any], Any]] = {
    timedelta: lambda value: round(value / timedelta(milliseconds=1)),
    datetime: lambda value: round(value.timestamp() * _SECOND),
    uuid.UUID: lambda value: value.bytes,
}


def _as_number(value: Any) -> Any:
    for each, convert in _NUMBERS.items():
        if isinstance(value, each):
            return convert(value)
    return int(value) if isinstance(value, KioErrorCode) else value
