"""ApiVersions to the byte, written down by hand: the one exchange that every client begins with."""

from __future__ import annotations

import pytest

from stratamq.wire.kafka.protocol import (
    ErrorCode,
    RequestHeader,
    UnsupportedVersion,
    Versions,
    api_versions_response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_unsupported_version,
)
from stratamq.wire.kafka.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SERVED = {3: Versions(0, 13), 18: Versions(0, 4)}

REQUESTS = {
    0: "0012 0000 0000002a 0003 6b6361",
    1: "0012 0001 0000002a 0003 6b6361",
    2: "0012 0002 0000002a 0003 6b6361",
    # Flexible: the client id keeps its int16 length, then tagged fields, then compact strings.
    3: "0012 0003 0000002a 0003 6b6361 00  05 6a617661 06 342e332e30 00",
    4: "0012 0004 0000002a 0003 6b6361 00  05 6a617661 06 342e332e30 00",
}

KEYS = "0003 0000 000d", "0012 0000 0004"
RESPONSES = {
    0: f"0000002a 0000 00000002 {KEYS[0]} {KEYS[1]}",
    1: f"0000002a 0000 00000002 {KEYS[0]} {KEYS[1]} 00000007",
    2: f"0000002a 0000 00000002 {KEYS[0]} {KEYS[1]} 00000007",
    # The body is flexible, the header is not: no tagged fields after the correlation id.
    3: f"0000002a 0000 03 {KEYS[0]} 00 {KEYS[1]} 00 00000007 00",
    4: f"0000002a 0000 03 {KEYS[0]} 00 {KEYS[1]} 00 00000007 00",
}


def framed(hexed: str) -> bytes:
    data = bytes.fromhex(hexed)
    return len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("version", REQUESTS)
def test_a_request_has_these_bytes(version: int) -> None:
    body = ApiVersionsRequest()
    if version >= 3:
        body = ApiVersionsRequest(client_software_name="java", client_software_version="4.3.0")
    encoded = b"".join(encode_request(body, version, 42, "kca"))
    assert encoded == framed(REQUESTS[version])
    assert decode_request(encoded[4:])[:2] == (RequestHeader(18, version, 42, "kca"), body)


@pytest.mark.parametrize("version", RESPONSES)
def test_a_response_has_these_bytes(version: int) -> None:
    body = api_versions_response(SERVED, throttle_time_ms=7 if version else 0)
    encoded = b"".join(encode_response(RequestHeader(18, version, 42), body))
    assert encoded == framed(RESPONSES[version])
    assert decode_response(encoded[4:], 18, version) == (42, body)


def test_features_are_tagged_fields() -> None:
    finalized = FinalizedFeatureKey(name="a", max_version_level=2, min_version_level=1)
    body = ApiVersionsResponse(
        api_keys=[],
        supported_features=[SupportedFeatureKey(name="a", min_version=1, max_version=2)],
        finalized_features_epoch=9,
        finalized_features=[finalized],
    )
    encoded = b"".join(encode_response(RequestHeader(18, 4, 42), body))
    assert encoded == framed(
        "0000002a 0000 01 00000000"
        " 03"
        " 00 08 02 02 61 0001 0002 00"
        " 01 08 0000000000000009"
        " 02 08 02 02 61 0002 0001 00"
    )
    assert decode_response(encoded[4:], 18, 4) == (42, body)


def test_a_request_from_the_future_is_answered_in_version_0() -> None:
    """Whatever follows the correlation id, in whatever header version, is not looked at."""
    frame = bytes.fromhex("0012 0063 0000002a") + b"\xff" * 20
    with pytest.raises(UnsupportedVersion) as caught:
        decode_request(frame, SERVED)
    answer = b"".join(encode_unsupported_version(caught.value, SERVED))
    assert answer == framed(f"0000002a 0023 00000002 {KEYS[0]} {KEYS[1]}")


@pytest.mark.parametrize("asked", [0, 3, 4])
def test_a_client_reads_that_answer_whatever_it_asked_in(asked: int) -> None:
    frame = bytes.fromhex(f"0000002a 0023 00000002 {KEYS[0]} {KEYS[1]}")
    expected = api_versions_response(SERVED, error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert decode_response(frame, 18, asked) == (42, expected)
