"""Whole frames: headers, the choice of versions, and answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.schema.response_header.v1.header import ResponseHeader as KioResponseHeaderV1
from kio.serial import entity_reader

from stratamq.wire.kafka.protocol import (
    APIS,
    FrameReceiver,
    MalformedMessage,
    RequestHeader,
    UnknownApi,
    UnsendableValue,
    UnsupportedVersion,
    Versions,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from stratamq.wire.kafka.protocol.exchange import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    framed,
    request_header_version,
    response_header_version,
)
from stratamq.wire.kafka.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.protocol.schema import Role, message_of
from tests.wire.protocol.support import CASES, Case, case_name, sample

headers = st.builds(
    RequestHeader,
    api_key=st.integers(-(1 << 15), (1 << 15) - 1),
    api_version=st.integers(-(1 << 15), (1 << 15) - 1),
    correlation_id=st.integers(-(1 << 31), (1 << 31) - 1),
    client_id=st.none() | st.text(max_size=20),
)
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


# -- headers ---------------------------------------------------------------------------------------


@given(header=headers, version=st.sampled_from([0, 1, 2]))
def test_request_headers_come_back_and_no_part_of_them_does(
    header: RequestHeader, version: int
) -> None:
    data = encode_request_header(header, version)
    expected = header if version else header._replace(client_id=None)
    assert decode_request_header(data + b"body", version) == (expected, len(data))
    for end in range(len(data)):
        with pytest.raises(MalformedMessage):
            decode_request_header(data[:end], version)


@given(header=headers, version=st.sampled_from([1, 2]))
def test_kio_reads_the_same_request_header(header: RequestHeader, version: int) -> None:
    data = encode_request_header(header, version)
    twin: Any = KioHeaderV1 if version == 1 else KioHeaderV2
    entity, size = entity_reader(twin)(data, 0)
    read = (entity.request_api_key, entity.request_api_version, entity.correlation_id)
    assert (*read, entity.client_id) == header
    assert size == len(data)


@given(correlation_id=st.integers(-(1 << 31), (1 << 31) - 1), version=st.sampled_from([0, 1]))
def test_response_headers_come_back(correlation_id: int, version: int) -> None:
    data = encode_response_header(correlation_id, version)
    assert decode_response_header(data + b"body", version) == (correlation_id, 4 + version)
    if version == 1:
        entity, size = entity_reader(KioResponseHeaderV1)(data, 0)
        assert (entity.correlation_id, size) == (correlation_id, 5)
    for end in range(len(data)):
        with pytest.raises(MalformedMessage):
            decode_response_header(data[:end], version)


def test_unknown_tagged_fields_of_headers_are_passed_over() -> None:
    data = bytes.fromhex("000c 0004 00000007 0001 63  02 00 01 ff 09 00")
    assert decode_request_header(data, 2) == (RequestHeader(12, 4, 7, "c"), len(data))
    assert decode_response_header(bytes.fromhex("00000007 01 05 02 aabb"), 1) == (7, 9)


@pytest.mark.parametrize(
    "tail", ["ffff 01 00", "0001 ff 00", "fffe 00", "0005 61 00", "ffff 01 00 7f"]
)
def test_broken_headers_are_refused(tail: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(bytes.fromhex("000c 0004 00000007" + tail), 2)


def test_which_header_goes_with_what() -> None:
    assert request_header_version(7, 0, flexible=False) == 0  # ControlledShutdown
    assert request_header_version(7, 1, flexible=False) == 1
    assert request_header_version(3, 8, flexible=False) == 1
    assert request_header_version(3, 9, flexible=True) == 2
    assert response_header_version(3, flexible=False) == 0
    assert response_header_version(3, flexible=True) == 1
    assert response_header_version(18, flexible=True) == 0


def test_a_client_id_has_an_end() -> None:
    with pytest.raises(UnsendableValue, match="32768"):
        encode_request(HEARTBEAT, 4, 1, "c" * 32_768)


# -- requests and responses ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", [case for case in CASES if message_of(case[0]).role is Role.REQUEST], ids=case_name
)
def test_every_api_in_every_version_there_and_back(case: Case) -> None:
    """The bodies are tested elsewhere; this is about what stands before them."""
    request_type, version = case
    api = APIS[message_of(request_type).key]
    asked = sample(request_type, version)
    splitter = FrameReceiver()
    for buffer in encode_request(asked, version, 77, "client"):
        splitter.feed(buffer)
    header, read, _ = decode_request(splitter.next_frame() or b"")
    assert (header, read) == (RequestHeader(api.key, version, 77, "client"), asked)

    answer = sample(api.response, version)
    for buffer in encode_response(header, answer):
        splitter.feed(buffer)
    assert decode_response(splitter.next_frame() or b"", api.key, version) == (77, answer)
    assert splitter.held_bytes == 0


def test_only_what_is_served_is_read() -> None:
    frame = b"".join(encode_request(HEARTBEAT, 4, 9))[4:]
    assert decode_request(frame, {12: Versions(0, 4)}).body == HEARTBEAT
    with pytest.raises(UnsupportedVersion, match=r"Heartbeat \(API key 12\).* version 4") as caught:
        decode_request(frame, {12: Versions(0, 3)})
    assert (caught.value.api_key, caught.value.api_version) == (12, 4)
    assert caught.value.correlation_id == 9
    with pytest.raises(UnknownApi) as unknown:
        decode_request(frame, {11: Versions(0, 3)})
    assert (unknown.value.api_key, unknown.value.correlation_id) == (12, 9)


def test_bytes_left_over_are_refused_unless_the_server_is_lenient() -> None:
    frame = b"".join(encode_request(HEARTBEAT, 4, 9))[4:] + b"left over"
    with pytest.raises(MalformedMessage, match="9 bytes are left over"):
        decode_request(frame)
    assert decode_request(frame, exact=False).body == HEARTBEAT


@pytest.mark.parametrize("key", [-1, 4, 7, 1000])
def test_unknown_apis_are_named(key: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + bytes(10)
    with pytest.raises(UnknownApi, match=f"API key {key} "):
        decode_request(frame)


def test_a_request_is_answered_by_its_own_response() -> None:
    with pytest.raises(AssertionError, match="HeartbeatResponse does not answer Metadata"):
        encode_response(RequestHeader(3, 9, 1), HeartbeatResponse())


def test_the_limit_of_elements_reaches_the_body() -> None:
    frame = b"".join(encode_request(sample(ProduceRequest, 9), 9, 1))[4:]
    with pytest.raises(MalformedMessage, match="elements"):
        decode_request(frame, elements_max=1)


def test_records_go_through_uncopied() -> None:
    records = b"r" * 100_000
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=[partition])
    buffers = encode_request(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9, 1, "c")
    assert buffers[1] is records
    assert int.from_bytes(bytes(buffers[0])[:4], "big") == sum(map(len, buffers)) - 4


def test_a_frame_over_2_gib_is_not_sent() -> None:
    class Vast(bytes):
        def __len__(self) -> int:
            return 1 << 31

    with pytest.raises(UnsendableValue, match="2147483648"):
        framed([Vast()])


def test_bytes_left_over_are_refused_unless_the_caller_does_not_mind() -> None:
    body = MetadataRequest(topics=None)
    frame = b"".join(encode_request(body, 13, 7))[4:] + b"xyz"
    with pytest.raises(MalformedMessage, match="left over"):
        decode_request(frame)
    assert decode_request(frame, exact=False).body == body
