"""Messages to bytes and back, by functions that are generated at their first use."""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from stratamq.wire.kafka.protocol.decoding import decoder_source
from stratamq.wire.kafka.protocol.encoding import encoder_source
from stratamq.wire.kafka.protocol.errors import MalformedMessage
from stratamq.wire.kafka.protocol.frames import Frame
from stratamq.wire.kafka.protocol.runtime import ELEMENTS_MAX
from stratamq.wire.kafka.protocol.schema import Buffer, MessageSpec, message_of
from stratamq.wire.kafka.protocol.source import FunctionSource

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that yields wherever it may be interrupted, and returns its result."""

Decoder = Callable[[Frame, int, int], Any]
"""Frame, where the message begins, how many elements it may have: the message, and how many more
elements it could have had. In steps, a generator."""

Encoder = Callable[[object, bytes], Any]
"""Message and what to send before it: buffers. In steps, a generator."""


class Decoders(dict[tuple[type, int, bool, bool], Decoder]):
    """By message, version, whether it has to end where its frame does, and whether in steps."""

    def __missing__(self, key: tuple[type, int, bool, bool]) -> Decoder:
        message_type, version, exact, steps = key
        message = _known(message_type, version)
        source = decoder_source(message, version, exact=exact, steps=steps)
        made = self[key] = _compiled(source, "decode")
        return made


class Encoders(dict[tuple[type, int, bool], Encoder]):
    """By message, version, and whether in steps."""

    def __missing__(self, key: tuple[type, int, bool]) -> Encoder:
        message_type, version, steps = key
        message = _known(message_type, version)
        made = self[key] = _compiled(encoder_source(message, version, steps=steps), "encode")
        return made


DECODERS, ENCODERS = Decoders(), Encoders()


def decode(
    message_type: type[T],
    version: int,
    data: Frame,
    at: int = 0,
    *,
    exact: bool = True,
    elements_max: int = ELEMENTS_MAX,
) -> T:
    """Read the message that lies in `data` from `at` to the end.

    Raises MalformedMessage and nothing else. Records come as views into `data`, everything else
    is copied. Unless `exact`, the message may end before `data` does. Only a message that holds
    records is read from a view.
    """
    message: T = DECODERS[message_type, version, exact, False](data, at, elements_max)[0]
    return message


def decode_in_steps(
    message_type: type[T], version: int, data: Frame, at: int, exact: bool, elements_max: int
) -> Steps[tuple[T, int]]:
    """The message, and the elements of all its arrays together."""
    found = DECODERS[message_type, version, exact, True]
    message, left = yield from found(data, at, elements_max)
    return message, elements_max - left


def encode(message: object, version: int, head: bytes = b"") -> list[Buffer]:
    """The message as buffers to be sent one after the other, with `head` before them.

    Records of more than a few KiB are buffers by themselves, the very ones that were given.
    UnsendableValue: the message holds what this version cannot carry.
    """
    buffers: list[Buffer] = ENCODERS[type(message), version, False](message, head)
    return buffers


def encode_in_steps(message: object, version: int, head: bytes = b"") -> Steps[list[Buffer]]:
    buffers: list[Buffer] = yield from ENCODERS[type(message), version, True](message, head)
    return buffers


def source(message_type: type, version: int) -> str:
    """The generated functions, to look at."""
    message = _known(message_type, version)
    return decoder_source(message, version).text + "\n\n" + encoder_source(message, version).text


def _known(message_type: type, version: int) -> MessageSpec:
    message = message_of(message_type)
    if version not in message.versions:
        raise ValueError(f"{message.name} has versions {message.versions}, not {version}")
    return message


def _compiled(source: FunctionSource, name: str) -> Callable[..., Any]:
    """Run the source. Its lines are kept, so that a traceback can show them."""
    text = source.text
    place = f"<{name} {source.title}{' in steps' if source.steps else ''}>"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    exec(compile(text, place, "exec"), source.namespace)
    made: Callable[..., Any] = source.namespace[name]
    return made


# -- structures inside a bytes field: an int16 version, then the body ------------------------------
# Classic consumers put them into JoinGroup and SyncGroup. A reader takes what it knows of a newer
# version than its own, since versions only ever add fields at the end.

_VERSION = struct.Struct(">h")


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
