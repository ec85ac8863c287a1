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
from stratamq.wire.kafka.protocol.runtime import ELEMENTS_MAX, unsendable
from stratamq.wire.kafka.protocol.schema import Buffer, MessageSpec, message_of
from stratamq.wire.kafka.protocol.source import FunctionSource

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that yields wherever it may be interrupted, and returns its result."""

_decoders: dict[tuple[type, int, bool, bool], Callable[[Frame, int, int], Any]] = {}
_encoders: dict[tuple[type, int, bool], Callable[[object, bytes], Any]] = {}


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
    return decode_counted(message_type, version, data, at, exact, elements_max)[0]


def decode_counted(
    message_type: type[T], version: int, data: Frame, at: int, exact: bool, elements_max: int
) -> tuple[T, int]:
    """The message, and the elements of all its arrays together."""
    found = _decoders.get((message_type, version, exact, False))
    if found is None:
        found = decoder(message_type, version, exact=exact)
    message, left = found(data, at, elements_max)
    return message, elements_max - left


def decode_in_steps(
    message_type: type[T], version: int, data: Frame, at: int, exact: bool, elements_max: int
) -> Steps[tuple[T, int]]:
    found = _decoders.get((message_type, version, exact, True))
    if found is None:
        found = decoder(message_type, version, exact=exact, steps=True)
    message, left = yield from found(data, at, elements_max)
    return message, elements_max - left


def encode(message: object, version: int, head: bytes = b"") -> list[Buffer]:
    """The message as buffers to be sent one after the other, with `head` before them.

    Records of more than a few KiB are buffers by themselves, the very ones that were given.
    UnsendableValue: the message holds what this version cannot carry.
    """
    found = _encoders.get((type(message), version, False))
    if found is None:
        found = encoder(type(message), version)
    try:
        buffers: list[Buffer] = found(message, head)
    except UNSENDABLE as error:
        raise _explained(message, version, error) from error
    return buffers


def encode_in_steps(message: object, version: int, head: bytes = b"") -> Steps[list[Buffer]]:
    found = _encoders.get((type(message), version, True))
    if found is None:
        found = encoder(type(message), version, steps=True)
    try:
        buffers: list[Buffer] = yield from found(message, head)
    except UNSENDABLE as error:
        raise _explained(message, version, error) from error
    return buffers


UNSENDABLE = (struct.error, ValueError, TypeError, AttributeError)
"""How a value that cannot be sent shows itself in a generated function."""


def decoder(
    message_type: type, version: int, *, exact: bool = True, steps: bool = False
) -> Callable[[Frame, int, int], Any]:
    message = _known(message_type, version)
    made = _compiled(decoder_source(message, version, exact=exact, steps=steps), "decode")
    _decoders[message_type, version, exact, steps] = made
    return made


def encoder(
    message_type: type, version: int, *, steps: bool = False
) -> Callable[[object, bytes], Any]:
    message = _known(message_type, version)
    made = _compiled(encoder_source(message, version, steps=steps), "encode")
    _encoders[message_type, version, steps] = made
    return made


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


def _explained(message: object, version: int, error: Exception) -> Exception:
    """Name the generated line that failed: it names the field."""
    name = f"{type(message).__name__} v{version}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return unsendable(name, error, line)


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
