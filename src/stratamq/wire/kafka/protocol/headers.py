"""What stands before the body of a request or response.

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

from struct import Struct
from typing import NamedTuple

from stratamq.wire.kafka.protocol.errors import MalformedMessage, UnsendableValue
from stratamq.wire.kafka.protocol.frames import Frame
from stratamq.wire.kafka.protocol.runtime import skip_tags

API_VERSIONS_KEY = 18
_CONTROLLED_SHUTDOWN_KEY = 7

_FIXED = Struct(">hhi")
_FIXED_AND_LENGTH = Struct(">hhih")
_CORRELATION_ID = Struct(">i")
_CLIENT_ID_BYTES_MAX = (1 << 15) - 1
NO_TAGS = b"\0"


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def request_header_version(api_key: int, api_version: int, *, flexible: bool) -> int:
    if api_key == _CONTROLLED_SHUTDOWN_KEY and api_version == 0:
        return 0
    return 2 if flexible else 1


def response_header_version(api_key: int, *, flexible: bool) -> int:
    return 1 if flexible and api_key != API_VERSIONS_KEY else 0


def peek_request(frame: Frame) -> tuple[int, int, int]:
    """API key, API version and correlation id: all headers begin with them.

    The version of the header itself follows from the first two.
    """
    if len(frame) < _FIXED.size:
        raise MalformedMessage(f"{len(frame)} bytes are too few for a request header")
    api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
    return api_key, api_version, correlation_id


def decode_request_header(frame: Frame, header_version: int) -> tuple[RequestHeader, int]:
    """The header, and where the body begins."""
    if header_version == 0:
        return RequestHeader(*peek_request(frame)), _FIXED.size
    if len(frame) < _FIXED_AND_LENGTH.size:
        raise MalformedMessage(f"{len(frame)} bytes are too few for a request header")
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
    tags = b"\0" if header_version >= 2 else b""
    return fixed + length.to_bytes(2, "big", signed=True) + (name or b"") + tags


def decode_response_header(frame: Frame, header_version: int) -> tuple[int, int]:
    """The correlation id, and where the body begins."""
    if len(frame) < _CORRELATION_ID.size:
        raise MalformedMessage(f"{len(frame)} bytes are too few for a response header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    pos = _CORRELATION_ID.size
    return correlation_id, _skip_tags(frame, pos) if header_version >= 1 else pos


def encode_response_header(correlation_id: int, header_version: int) -> bytes:
    return _CORRELATION_ID.pack(correlation_id) + (b"\0" if header_version >= 1 else b"")
