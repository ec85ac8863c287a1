"""Messages for the tests of this folder: all of them, and values to fill them with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st

from stratamq.wire.kafka.protocol.codec import encode
from stratamq.wire.kafka.protocol.messages import groups
from stratamq.wire.kafka.protocol.registry import APIS
from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    Array,
    FieldSpec,
    Fixed,
    Kind,
    Sized,
    fields_of,
    message_of,
)

Case = tuple[type, int]

DATA_TYPES = (
    groups.ConsumerProtocolSubscription,
    groups.ConsumerProtocolAssignment,
)
TYPES = [
    message_type for api in APIS.values() for message_type in (api.request, api.response)
] + list(DATA_TYPES)


def versions(message_type: type) -> range:
    known = message_of(message_type).versions
    return range(known.first, known.last + 1)


CASES: list[Case] = [(each, version) for each in TYPES for version in versions(each)]
"""Every message in every version."""

OURS_FROM = 32_000
"""Keys from here on are ours alone; nobody else has their messages."""

KAFKAS = [case for case in CASES if message_of(case[0]).key < OURS_FROM]


def case_name(case: Case) -> str:
    return f"{case[0].__name__}-v{case[1]}"


def wired(message: object, version: int) -> bytes:
    return b"".join(encode(message, version))


# -- any value -------------------------------------------------------------------------------------

Narrow = Callable[[type, FieldSpec], st.SearchStrategy[Any] | None]
"""Gives a strategy for the fields that a second implementation cannot hold any value of."""

_LONG = 130
"""More than one byte of varint can count."""

texts = st.text(max_size=6) | st.sampled_from(["", "orders", "ü" * _LONG])
blobs = st.binary(max_size=6) | st.just(bytes(_LONG)) | st.just(b"r" * 5000)


def signed(bits: int) -> st.SearchStrategy[int]:
    edge = 1 << (bits - 1)
    return st.sampled_from([0, -1, 1, -edge, edge - 1]) | st.integers(-edge, edge - 1)


def messages(
    message_type: type, version: int, narrow: Narrow = lambda struct_type, field: None
) -> st.SearchStrategy[Any]:
    """Any value that this version can carry."""
    return _structs(message_type, version, narrow)


@cache
def _structs(struct_type: type, version: int, narrow: Narrow) -> st.SearchStrategy[Any]:
    given = {
        field.name: _fields(struct_type, field, version, narrow)
        for field in fields_of(struct_type)
        if version in field.versions
    }
    return st.builds(struct_type, **given)


def _fields(
    struct_type: type, field: FieldSpec, version: int, narrow: Narrow
) -> st.SearchStrategy[Any]:
    found = narrow(struct_type, field)
    if found is None:
        found = _values(field.kind, version, narrow)
    if field.default is None or version in field.nullable:
        return st.none() | found
    return found


def _values(kind: Kind, version: int, narrow: Narrow) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed():
            return _fixed(kind)
        case Sized():
            return texts if kind is STRING else blobs
        case Array():
            element = _values(kind.element, version, narrow)
            some = st.lists(element, max_size=2)
            if isinstance(kind.element, type):
                return some
            return some | element.map(lambda value: [value] * _LONG)
    return _structs(kind, version, narrow)


def _fixed(kind: Fixed) -> st.SearchStrategy[Any]:
    if kind is BOOL:
        return st.booleans()
    if kind is FLOAT64:
        return st.floats(allow_nan=False, allow_infinity=False)
    if kind is UUID:
        return st.binary(min_size=16, max_size=16)
    if kind is UINT16:
        return st.sampled_from([0, 1, 9092, (1 << 16) - 1])
    return signed(8 * kind.width)


# -- one value with everything in it ---------------------------------------------------------------


def sample(message_type: type, version: int) -> Any:
    """A message with two elements in every array and no field at its default."""
    return _sample_struct(message_type, version, iter(range(1, 1 << 20)))


def _sample_struct(struct_type: type, version: int, numbers: Iterator[int]) -> Any:
    given = {
        field.name: _sample_value(field.kind, version, numbers)
        for field in fields_of(struct_type)
        if version in field.versions
    }
    return struct_type(**given)


def _sample_value(kind: Kind, version: int, numbers: Iterator[int]) -> Any:
    match kind:
        case Array():
            return [_sample_value(kind.element, version, numbers) for _ in range(2)]
        case Fixed() | Sized():
            return _sample_plain(kind, next(numbers))
    return _sample_struct(kind, version, numbers)


def _sample_plain(kind: Fixed | Sized, number: int) -> Any:
    if kind is BOOL:
        return True
    if kind is FLOAT64:
        return number / 4
    if kind is UUID:
        return number.to_bytes(16, "big")
    if kind is STRING:
        return f"text-{number}"
    if kind in (BYTES, RECORDS):
        return b"bytes-%d" % number
    return number % 100 + 1
