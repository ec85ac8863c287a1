"""Kafka's requests and responses: bytes in, values out.

`messages` declares them, `schema` has the words for it. `codec` reads and writes one message, by
functions that `decoding` and `encoding` generate from the declarations at first use; `print
(source(MetadataResponse, 12))` prints them. `frames` and `exchange` deal in whole frames,
`registry` knows all APIs, and `repeats` which parts of a request name the same.

Whatever bytes come in, reading them ends in a value or in a ProtocolError; memory is bounded by
the size of the frame and by `ELEMENTS_MAX`.
"""

from __future__ import annotations

from stratamq.wire.kafka.protocol.codec import (
    Steps,
    decode,
    decode_embedded,
    encode,
    encode_embedded,
    source,
)
from stratamq.wire.kafka.protocol.errors import (
    ErrorCode,
    FrameTooLarge,
    MalformedFrame,
    MalformedMessage,
    ProtocolError,
    UnknownApi,
    UnsendableValue,
    UnsupportedVersion,
    error_of,
)
from stratamq.wire.kafka.protocol.exchange import (
    Request,
    RequestHeader,
    Response,
    decode_request,
    decode_request_in_steps,
    decode_response,
    encode_request,
    encode_response,
    encode_response_in_steps,
    encode_unsupported_version,
)
from stratamq.wire.kafka.protocol.frames import (
    FRAME_BYTES_MAX,
    Frame,
    FrameReceiver,
    ReceiveBuffers,
)
from stratamq.wire.kafka.protocol.registry import (
    ADVERTISED_FROM,
    ALL_VERSIONS,
    APIS,
    Api,
    Served,
    api_versions_response,
)
from stratamq.wire.kafka.protocol.runtime import ELEMENTS_MAX, RESPONSE_ELEMENTS_MAX
from stratamq.wire.kafka.protocol.schema import NO_UUID, Buffer, Versions

__all__ = [
    "ADVERTISED_FROM",
    "ALL_VERSIONS",
    "APIS",
    "ELEMENTS_MAX",
    "FRAME_BYTES_MAX",
    "NO_UUID",
    "RESPONSE_ELEMENTS_MAX",
    "Api",
    "Buffer",
    "ErrorCode",
    "Frame",
    "FrameReceiver",
    "FrameTooLarge",
    "MalformedFrame",
    "MalformedMessage",
    "ProtocolError",
    "ReceiveBuffers",
    "Request",
    "RequestHeader",
    "Response",
    "Served",
    "Steps",
    "UnknownApi",
    "UnsendableValue",
    "UnsupportedVersion",
    "Versions",
    "api_versions_response",
    "decode",
    "decode_embedded",
    "decode_request",
    "decode_request_in_steps",
    "decode_response",
    "encode",
    "encode_embedded",
    "encode_request",
    "encode_response",
    "encode_response_in_steps",
    "encode_unsupported_version",
    "error_of",
    "source",
]
