"""A message with one field of each kind that has a rule of its own, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.codec import decode, encode
from stratamq.wire.kafka.protocol.schema import (
    INT8,
    INT16,
    INT32,
    STRING,
    array,
    request,
    struct,
    wire,
)


@struct
class Part:
    number: int = wire(INT8)


@request(key=1000, versions="0-3", flexible="2+")
class Thing:
    name: str = wire(STRING)
    note: str | None = wire(STRING, nullable="1+", default=None)
    added: int = wire(INT16, versions="1+", default=-1)
    hint: int = wire(INT16, versions="1+", default=-1, ignorable=True)
    numbers: Sequence[int] = wire(array(INT32), versions="0-2", default=())
    part: Part | None = wire(Part, versions="2+", nullable=True, default=None)
    first: int = wire(INT8, tag=0, versions="2+", default=5)
    second: Sequence[Part] = wire(array(Part), tag=1, versions="3+", default=())
    third: Part | None = wire(Part, tag=300, versions="3+", default=None)


def wired(message: object, version: int) -> str:
    return b"".join(encode(message, version)).hex(" ")


def unwired(hexed: str, version: int) -> Thing:
    return decode(Thing, version, bytes.fromhex(hexed))
