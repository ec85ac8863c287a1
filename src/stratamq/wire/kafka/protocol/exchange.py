"""Whole frames to messages and back: what a server and a client do with each frame.

    server                                       client
    decode_request(frame, served)                encode_request(body, version, ...)
    encode_response(header, body)                decode_response(frame, sent)
    encode_unsupported_version(error, served)

Frames come in without their size and go out with it. Before the body stands a header:

| header | fields |
|---|---|
| request v0 | api key, api version, correlation id |
| request v1 | ... and the client id |
| request v2 | ... and tagged fields; the client id keeps its int16 length |
| response v0 | correlation id |
| response v1 | ... and tagged fields |

Flexible versions of an API have request header v2 and response header v1, others v1 and v0. There
are two exceptions. ApiVersions has response header v0 always, since its answer may be in another
version than the client asked for. ControlledShutdown v0 has request header v0.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import NamedTuple

from stratamq.wire.kafka.protocol.codec import (
    DECODERS,
    ENCODERS,
    Steps,
    decode,
    decode_in_steps,
    encode,
    encode_in_steps,
)
from stratamq.wire.kafka.protocol.decoding import holds_records
from stratamq.wire.kafka.protocol.errors import (
    ErrorCode,
    MalformedMessage,
    UnknownApi,
    UnsendableValue,
    UnsupportedVersion,
)
from stratamq.wire.kafka.protocol.frames import SIZE, Frame
from stratamq.wire.kafka.protocol.registry import (
    ALL_VERSIONS,
    APIS,
    Served,
    api_versions_response,
)
from stratamq.wire.kafka.protocol.repeats import NAMED, may_repeat, without_repeats
from stratamq.wire.kafka.protocol.runtime import ELEMENTS_MAX, RESPONSE_ELEMENTS_MAX, skip_tags
from stratamq.wire.kafka.protocol.schema import Buffer, message_of

API_VERSIONS_KEY = 18
_CONTROLLED_SHUTDOWN_KEY = 7

_FIXED = Struct(">hhi")
_FIXED_AND_LENGTH = Struct(">hhih")
_CORRELATION_ID = Struct(">i")
_CLIENT_ID_BYTES_MAX = (1 << 15) - 1
NO_TAGS = b"\0"

_FRAME_MAX = (1 << 31) - 1
_FALLBACK_VERSION = 0
_WITH_RECORDS = frozenset(key for key, api in APIS.items() if holds_records(api.request))
"""Requests that are read from a view as well as from bytes."""


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


class Request(NamedTuple):
    header: RequestHeader
    body: object
    elements: int = 0
    """Of all arrays of the body together, with repetitions."""


class Response(NamedTuple):
    correlation_id: int
    body: object


def decode_request(
    frame: Frame,
    served: Served = ALL_VERSIONS,
    *,
    exact: bool = True,
    elements_max: int = ELEMENTS_MAX,
) -> Request:
    """One request, with what it repeats put together (`repeats`). Raises UnknownApi,
    UnsupportedVersion or MalformedMessage, nothing else.

    Unless `exact`, bytes may be left over after it: librdkafka's Metadata request for all topics
    has some, and Kafka does not mind. Records are views of the frame.
    """
    header, kind, frame, at = _decode_head(frame, served)
    decode_body = DECODERS[kind, header.api_version, exact, False]
    body, left = decode_body(frame, at, elements_max)
    elements = elements_max - left
    if elements > 1 and kind in NAMED and may_repeat(body):
        for _ in without_repeats(body):
            pass
    return Request(header, body, elements)


def decode_request_in_steps(
    frame: Frame,
    served: Served = ALL_VERSIONS,
    *,
    exact: bool = True,
    elements_max: int = ELEMENTS_MAX,
) -> Steps[Request]:
    """The same for a large one: it yields every few hundred elements."""
    header, kind, frame, at = _decode_head(frame, served)
    version = header.api_version
    body, elements = yield from decode_in_steps(kind, version, frame, at, exact, elements_max)
    yield from without_repeats(body)
    return Request(header, body, elements)


def _decode_head(frame: Frame, served: Served) -> tuple[RequestHeader, type[object], Frame, int]:
    """The header, and where the body lies that is not read yet: its class, the frame, its begin."""
    if len(frame) < _FIXED.size:
        raise _too_short(frame)
    key, version, correlation_id = _FIXED.unpack_from(frame)
    versions = served.get(key)
    if versions is None:
        raise UnknownApi(key, version, correlation_id)
    api = APIS[key]
    if not versions.first <= version <= versions.last:
        raise UnsupportedVersion(api.name, key, version, correlation_id)
    if key not in _WITH_RECORDS:
        frame = bytes(frame)
    header, at = decode_request_header(frame, _request_header_version(api.key, version))
    return header, api.request, frame, at


def encode_response(header: RequestHeader, body: object) -> list[Buffer]:
    """The answer to the request that had `header`, as buffers to send one after the other."""
    key, version, correlation_id, _ = header
    api = APIS[key]
    assert isinstance(body, api.response), f"{type(body).__name__} does not answer {api.name}"
    head = encode_response_header(correlation_id, _response_header_version(key, version))
    return framed(ENCODERS[type(body), version, False](body, head))


def encode_response_in_steps(header: RequestHeader, body: object) -> Steps[list[Buffer]]:
    """The same for one that may be large: it yields every few hundred elements."""
    key, version, correlation_id, _ = header
    api = APIS[key]
    assert isinstance(body, api.response), f"{type(body).__name__} does not answer {api.name}"
    head = encode_response_header(correlation_id, _response_header_version(key, version))
    return framed((yield from encode_in_steps(body, version, head)))


def encode_unsupported_version(error: UnsupportedVersion, served: Served) -> list[Buffer]:
    """The answer to an ApiVersions request newer than ours: in version 0, with what we serve."""
    assert error.api_key == API_VERSIONS_KEY, "only ApiVersions can be answered in another version"
    header = RequestHeader(API_VERSIONS_KEY, _FALLBACK_VERSION, error.correlation_id)
    body = api_versions_response(served, error_code=ErrorCode.UNSUPPORTED_VERSION)
    return encode_response(header, body)


def encode_request(
    body: object, version: int, correlation_id: int, client_id: str | None = None
) -> list[Buffer]:
    api = APIS[message_of(type(body)).key]
    header = RequestHeader(api.key, version, correlation_id, client_id)
    head = encode_request_header(header, _request_header_version(api.key, version))
    return framed(encode(body, version, head))


def decode_response(
    frame: Frame, api_key: int, version: int, *, elements_max: int = RESPONSE_ELEMENTS_MAX
) -> Response:
    """The answer to a request of that API and version. Raises MalformedMessage, nothing else.

    A view only if the answer holds records.
    """
    api = APIS[api_key]
    correlation_id, at = decode_response_header(frame, _response_header_version(api.key, version))
    if api_key == API_VERSIONS_KEY:
        # A server that does not know our version of ApiVersions answers in version 0.
        code = int.from_bytes(frame[at : at + 2], "big")
        version = _FALLBACK_VERSION if code == ErrorCode.UNSUPPORTED_VERSION else version
    body: object = decode(api.response, version, frame, at, elements_max=elements_max)
    return Response(correlation_id, body)


def framed(buffers: list[Buffer]) -> list[Buffer]:
    """Put the size of all before the first."""
    size = sum(map(len, buffers))
    if size > _FRAME_MAX:
        raise UnsendableValue(f"a frame of {size} bytes")
    buffers[0] = SIZE.pack(size) + bytes(buffers[0])
    return buffers


# -- headers ---------------------------------------------------------------------------------------


@cache
def _request_header_version(key: int, version: int) -> int:
    """Of a version that is known, so that there are few."""
    return request_header_version(key, version, flexible=APIS[key].is_flexible(version))


@cache
def _response_header_version(key: int, version: int) -> int:
    return response_header_version(key, flexible=APIS[key].is_flexible(version))


def request_header_version(api_key: int, api_version: int, *, flexible: bool) -> int:
    if api_key == _CONTROLLED_SHUTDOWN_KEY and api_version == 0:
        return 0
    return 2 if flexible else 1


def response_header_version(api_key: int, *, flexible: bool) -> int:
    return 1 if flexible and api_key != API_VERSIONS_KEY else 0


def _too_short(frame: Frame) -> MalformedMessage:
    return MalformedMessage(f"{len(frame)} bytes are too few for a request header")


def decode_request_header(frame: Frame, header_version: int) -> tuple[RequestHeader, int]:
    """The header, and where the body begins."""
    if header_version == 0:
        if len(frame) < _FIXED.size:
            raise _too_short(frame)
        return RequestHeader(*_FIXED.unpack_from(frame)), _FIXED.size
    if len(frame) < _FIXED_AND_LENGTH.size:
        raise _too_short(frame)
    api_key, api_version, correlation_id, length = _FIXED_AND_LENGTH.unpack_from(frame)
    begin = pos = _FIXED_AND_LENGTH.size
    client_id = None
    if length != -1:
        pos += length
        if not begin <= pos <= len(frame):
            raise MalformedMessage(f"a client id of {length} bytes is not in the frame")
        try:
            client_id = str(frame[begin:pos], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage("the client id is not UTF-8") from None
    if header_version >= 2:
        pos = pos + 1 if frame[pos : pos + 1] == NO_TAGS else _skip_tags(frame, pos)
    return RequestHeader(api_key, api_version, correlation_id, client_id), pos


def _skip_tags(frame: Frame, pos: int) -> int:
    try:
        first = frame[pos]
        return skip_tags(frame, pos + 1, first) if first else pos + 1
    except IndexError:
        raise MalformedMessage("the frame ends in its header") from None


def encode_request_header(header: RequestHeader, header_version: int) -> bytes:
    fixed = _FIXED.pack(header.api_key, header.api_version, header.correlation_id)
    if header_version == 0:
        return fixed
    name = None if header.client_id is None else header.client_id.encode()
    if name is not None and len(name) > _CLIENT_ID_BYTES_MAX:
        raise UnsendableValue(f"a client id of {len(name)} bytes")
    length = -1 if name is None else len(name)
    tags = NO_TAGS if header_version >= 2 else b""
    return fixed + length.to_bytes(2, "big", signed=True) + (name or b"") + tags


def decode_response_header(frame: Frame, header_version: int) -> tuple[int, int]:
    """The correlation id, and where the body begins."""
    if len(frame) < _CORRELATION_ID.size:
        raise MalformedMessage(f"{len(frame)} bytes are too few for a response header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    pos = _CORRELATION_ID.size
    return correlation_id, _skip_tags(frame, pos) if header_version >= 1 else pos


def encode_response_header(correlation_id: int, header_version: int) -> bytes:
    head = _CORRELATION_ID.pack(correlation_id)
    return head + NO_TAGS if header_version >= 1 else head
