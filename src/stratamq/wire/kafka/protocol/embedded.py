"""Structures that travel inside a bytes field: an int16 version, then the body.

Classic consumers put them into JoinGroup and SyncGroup. A reader takes what it knows of a newer
version than its own, since versions only ever add fields at the end.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeVar

from stratamq.wire.kafka.protocol.codec import decode, encode
from stratamq.wire.kafka.protocol.exceptions import MalformedMessage
from stratamq.wire.kafka.protocol.schema import message_of

T = TypeVar("T")
_VERSION = Struct(">h")


def decode_embedded(data_type: type[T], data: bytes) -> tuple[int, T]:
    """The version that was sent, and the structure."""
    if len(data) < _VERSION.size:
        raise MalformedMessage(f"{len(data)} bytes are too few for a version")
    (sent,) = _VERSION.unpack_from(data)
    known = message_of(data_type).versions
    if sent < known.first:
        raise MalformedMessage(f"{data_type.__name__} has no version {sent}")
    version = min(sent, known.last)
    return sent, decode(data_type, version, data, _VERSION.size, exact=sent == version)


def encode_embedded(data: object, version: int) -> bytes:
    return b"".join(encode(data, version, _VERSION.pack(version)))
