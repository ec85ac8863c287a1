"""Messages to bytes and back, by functions that are generated at their first use."""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from stratamq.wire.kafka.protocol.decoding import decoder_source
from stratamq.wire.kafka.protocol.encoding import encoder_source
from stratamq.wire.kafka.protocol.receiving import Frame
from stratamq.wire.kafka.protocol.runtime import ELEMENTS_MAX, unsendable
from stratamq.wire.kafka.protocol.schema import Buffer, Message, message_of
from stratamq.wire.kafka.protocol.source import Source

T = TypeVar("T")
Decoder = Callable[[Frame, int, int], Any]
Encoder = Callable[[object, bytes], list[Buffer]]

_decoders: dict[tuple[type, int, bool], Decoder] = {}
_encoders: dict[tuple[type, int], Encoder] = {}


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
    found = _decoders.get((message_type, version, exact))
    if found is None:
        found = decoder(message_type, version, exact=exact)
    message: T = found(data, at, elements_max)
    return message


def encode(message: object, version: int, head: bytes = b"") -> list[Buffer]:
    """The message as buffers to be sent one after the other, with `head` before them.

    Records of more than a few KiB are buffers by themselves, the very ones that were given.
    UnsendableValue: the message holds what this version cannot carry.
    """
    found = _encoders.get((type(message), version))
    if found is None:
        found = encoder(type(message), version)
    try:
        return found(message, head)
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise _explained(message, version, error) from error


def decoder(message_type: type, version: int, *, exact: bool = True) -> Decoder:
    message = _known(message_type, version)
    source = decoder_source(message, version, exact=exact)
    made: Decoder = _compiled(source, "decode")
    _decoders[message_type, version, exact] = made
    return made


def encoder(message_type: type, version: int) -> Encoder:
    message = _known(message_type, version)
    made: Encoder = _compiled(encoder_source(message, version), "encode")
    _encoders[message_type, version] = made
    return made


def source(message_type: type, version: int) -> str:
    """The generated functions, to look at."""
    message = _known(message_type, version)
    return decoder_source(message, version).text + "\n\n" + encoder_source(message, version).text


def _known(message_type: type, version: int) -> Message:
    message = message_of(message_type)
    if version not in message.versions:
        raise ValueError(f"{message.name} has versions {message.versions}, not {version}")
    return message


def _compiled(source: Source, name: str) -> Any:
    """Run the source. Its lines are kept, so that a traceback can show them."""
    text = source.text
    place = f"<{name} {source.title}>"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    exec(compile(text, place, "exec"), source.namespace)
    return source.namespace[name]


def _explained(message: object, version: int, error: Exception) -> Exception:
    """Name the generated line that failed: it names the field."""
    name = f"{type(message).__name__} v{version}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return unsendable(name, error, line)
