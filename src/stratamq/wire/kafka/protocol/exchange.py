"""Whole frames to messages and back: what a server and a client do with each frame.

    server                                       client
    decode_request(frame, served)                encode_request(body, version, ...)
    encode_response(header, body)                decode_response(frame, sent)
    encode_unsupported_version(error, served)

Frames come in without their size and go out with it.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from stratamq.wire.kafka.protocol.codec import (
    Steps,
    decode,
    decode_counted,
    decode_in_steps,
    encode,
    encode_in_steps,
)
from stratamq.wire.kafka.protocol.decoding import holds_records
from stratamq.wire.kafka.protocol.errors import (
    ErrorCode,
    UnknownApi,
    UnsendableValue,
    UnsupportedVersion,
)
from stratamq.wire.kafka.protocol.frames import SIZE, Frame
from stratamq.wire.kafka.protocol.headers import (
    API_VERSIONS_KEY,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    peek_request,
    request_header_version,
    response_header_version,
)
from stratamq.wire.kafka.protocol.registry import (
    ALL_VERSIONS,
    APIS,
    Served,
    api_versions_response,
)
from stratamq.wire.kafka.protocol.repeats import NAMED, may_repeat, without_repeats
from stratamq.wire.kafka.protocol.runtime import ELEMENTS_MAX, RESPONSE_ELEMENTS_MAX
from stratamq.wire.kafka.protocol.schema import Buffer, message_of

_FRAME_MAX = (1 << 31) - 1
_FALLBACK_VERSION = 0
_WITH_RECORDS = frozenset(key for key, api in APIS.items() if holds_records(api.request))
"""Requests that are read from a view as well as from bytes."""


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
    body, elements = decode_counted(kind, header.api_version, frame, at, exact, elements_max)
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
    key, version, correlation_id = peek_request(frame)
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
    return framed(encode(body, header.api_version, _response_head(header, body)))


def encode_response_in_steps(header: RequestHeader, body: object) -> Steps[list[Buffer]]:
    """The same for one that may be large: it yields every few hundred elements."""
    head = _response_head(header, body)
    return framed((yield from encode_in_steps(body, header.api_version, head)))


def _response_head(header: RequestHeader, body: object) -> bytes:
    key, version, correlation_id, _ = header
    api = APIS[key]
    assert isinstance(body, api.response), f"{type(body).__name__} does not answer {api.name}"
    return encode_response_header(correlation_id, _response_header_version(key, version))


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


@cache
def _request_header_version(key: int, version: int) -> int:
    """Of a version that is known, so that there are few."""
    return request_header_version(key, version, flexible=APIS[key].is_flexible(version))


@cache
def _response_header_version(key: int, version: int) -> int:
    return response_header_version(key, flexible=APIS[key].is_flexible(version))
