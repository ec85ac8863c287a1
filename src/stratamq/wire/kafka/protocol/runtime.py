"""What the generated functions call: the rare cases, and tables that spare them work.

The generated code handles the common case in line (a varint of one byte, no tagged fields) and
comes here for the rest.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from stratamq.wire.kafka.protocol.errors import MalformedMessage, UnsendableValue
from stratamq.wire.kafka.protocol.frames import Frame

RECORDS_COPIED_MAX = 4096
"""Records up to this size are cheaper to copy into their neighbours than to send by themselves."""

PACKERS_MAX = 1024
"""Combinations of array lengths that one place in a message remembers a packer for."""

ELEMENTS_MAX = 1 << 20
"""Elements that all arrays of a request may hold together, however large its frame.

An element may take three bytes on the wire and a hundred in memory: without this, a frame within
the size limit could cost forty times that limit.
"""

RESPONSE_ELEMENTS_MAX = 1 << 24
"""The same for a response, which comes from a server that its client chose."""

_UNPACKERS_MAX = 256


# -- reading ---------------------------------------------------------------------------------------


def uvarint_tail(buf: Frame, pos: int, first: int) -> tuple[int, int]:
    """The value and end of a varint whose `first` byte, just before `pos`, said it goes on."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                break
            return value, pos
    raise MalformedMessage(f"a varint over 32 bits ends at byte {pos}")


def uvarint(buf: Frame, pos: int) -> tuple[int, int]:
    byte = buf[pos]
    return (byte, pos + 1) if byte < 0x80 else uvarint_tail(buf, pos + 1, byte)


def skip_tags(buf: Frame, pos: int, first: int) -> int:
    """Pass over tagged fields that are not known here; `first` is the byte that counts them."""
    count, pos = uvarint_tail(buf, pos, first) if first > 0x7F else (first, pos)
    if count > (len(buf) - pos) // 2:
        raise bad_count(count, pos)
    last = -1
    for _ in range(count):
        tag, pos, end = tag_head(buf, pos, last)
        last, pos = tag, end
    return pos


def tag_head(buf: Frame, pos: int, last: int) -> tuple[int, int, int]:
    """Tag, start and end of the tagged field at `pos`; `last` is the tag before it."""
    tag, pos = uvarint(buf, pos)
    if tag <= last:
        raise MalformedMessage(f"tag {tag} follows tag {last} before byte {pos}")
    size, pos = uvarint(buf, pos)
    if size > len(buf) - pos:
        raise bad_length(size, pos)
    return tag, pos, pos + size


def bad_length(length: int, pos: int) -> MalformedMessage:
    if length < 0:
        return MalformedMessage(f"a null, or a negative length, where neither may be: byte {pos}")
    return MalformedMessage(f"a length of {length} at byte {pos} is past the end of the frame")


def bad_count(count: int, pos: int) -> MalformedMessage:
    if count < 0:
        return MalformedMessage(f"a null, or a negative count, where neither may be: byte {pos}")
    return MalformedMessage(f"{count} elements at byte {pos} are more than can be in the frame")


def bad_presence(mark: int, pos: int) -> MalformedMessage:
    return MalformedMessage(f"{mark} before byte {pos} says neither null nor present")


def bad_tag_size(pos: int, end: int) -> MalformedMessage:
    return MalformedMessage(f"a tagged field that should end at byte {end} ends at {pos}")


def trailing(pos: int, size: int) -> MalformedMessage:
    return MalformedMessage(f"{size - pos} bytes are left over at byte {pos}")


def ended_early(name: str, pos: int) -> MalformedMessage:
    return MalformedMessage(f"{name}: ends early, after byte {pos}")


def bad_text(name: str, pos: int) -> MalformedMessage:
    return MalformedMessage(f"{name}: a string after byte {pos} is not UTF-8")


class Unpackers(dict[int, Callable[..., tuple[Any, ...]]]):
    """For each count, what unpacks that many values of one kind."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        made = Struct(f">{count}{self._code}").unpack_from
        if count < _UNPACKERS_MAX:  # the peer chooses the counts; it shall not choose our memory
            self[count] = made
        return made


unpackers = {code: Unpackers(code) for code in "?bhiqd"}
"""By the struct code of the elements."""


# -- writing ---------------------------------------------------------------------------------------


def encode_uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Uvarints(dict[int, bytes]):
    """Varints by value; only those of one byte are kept."""

    def __init__(self) -> None:
        super().__init__((value, bytes([value])) for value in range(0x80))

    def __missing__(self, value: int) -> bytes:
        if value < 1 << 14:  # most lengths of records
            return bytes((value & 0x7F | 0x80, value >> 7))
        return encode_uvarint(value)


uvarints = Uvarints()


class Packers(dict[Any, Callable[..., bytes]]):
    """Packs a run of fixed values and arrays of them in one call, by the lengths of the arrays.

    `template` is a format with a `{}` for each array's length; `counts` says where among the
    arguments the arrays' counts are, not reckoning the elements before them. A count is packed as
    one byte when `compact`; packers for longer arrays take the long way.
    """

    def __init__(self, template: str, counts: Sequence[int], *, compact: bool) -> None:
        self._template, self._counts, self._compact = template, tuple(counts), compact

    def __missing__(self, lengths: Any) -> Callable[..., bytes]:
        each = lengths if isinstance(lengths, tuple) else (lengths,)
        if self._compact and max(each) >= 0x7F:
            return self._long(each)
        if len(self) >= PACKERS_MAX:
            self.clear()
        made = self[lengths] = Struct(self._template.format(*each)).pack
        return made

    def _long(self, lengths: tuple[int, ...]) -> Callable[..., bytes]:
        """Counts that may need more than a byte are given to pack as bytes of their own."""
        varints = [encode_uvarint(length + 1) for length in lengths]
        pieces = self._template.split("B{}")
        template = pieces[0]
        for varint, length, piece in zip(varints, lengths, pieces[1:], strict=True):
            template += f"{len(varint)}s{length}{piece}"
        packer = Struct(template).pack
        places = [at + sum(lengths[:index]) for index, at in enumerate(self._counts)]

        def pack(*values: Any) -> bytes:
            changed = list(values)
            for place, varint in zip(places, varints, strict=True):
                changed[place] = varint
            return packer(*changed)

        return pack


UNSENDABLE = (struct.error, ValueError, TypeError, AttributeError)
"""How a value that cannot be sent shows itself in a generated function."""


def unsendable(name: str, error: Exception) -> UnsendableValue:
    """Name the generated line that failed: it names the field."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None, "raised by a generated function"
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return UnsendableValue(f"{name} cannot be sent: {error}, in `{line.strip()}`")
