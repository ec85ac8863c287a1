"""The law of reading: a value or a ProtocolError, nothing else, in bounded memory."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.wire.kafka.protocol import (
    APIS,
    FrameReceiver,
    MalformedMessage,
    ProtocolError,
    decode_embedded,
    decode_request,
    decode_response,
)
from stratamq.wire.kafka.protocol.codec import decode, encode
from stratamq.wire.kafka.protocol.messages.configs import ListConfigResourcesRequest
from stratamq.wire.kafka.protocol.messages.groups_admin import DescribeGroupsRequest
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest
from stratamq.wire.kafka.protocol.messages.produce import ProduceRequest
from stratamq.wire.kafka.protocol.runtime import encode_uvarint
from tests.wire.protocol.support import (
    CASES,
    DATA_TYPES,
    Case,
    case_name,
    messages,
    sample,
    wired,
)

KEYS = sorted(APIS)


def obeys(read: Callable[[], object]) -> bool:
    """Whether something was read; any other exception than ours fails the test."""
    try:
        read()
    except ProtocolError:
        return False
    return True


def peak_bytes(read: Callable[[], object]) -> int:
    obeys(read)  # generates the reader, which takes memory of its own
    tracemalloc.start()
    try:
        obeys(read)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# -- damaged messages ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_every_byte_of_a_message_may_be_another(case: Case) -> None:
    """What still parses must be writable again: no value comes in that cannot go out."""
    message_type, version = case
    data = bytearray(wired(sample(message_type, version), version))
    dice = random.Random(str(case))
    for at in range(len(data)):
        before = data[at]
        for other in (0, 1, 0x7F, 0x80, 0xFF, before ^ (1 << dice.randrange(8))):
            data[at] = other
            frame = bytes(data)
            try:
                read: object = decode(message_type, version, frame)
            except MalformedMessage:
                continue
            encode(read, version)
        data[at] = before


def check_mutilated(case: Case, data: st.DataObject) -> None:
    message_type, version = case
    frame = bytearray(wired(data.draw(messages(message_type, version)), version))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(frame) - 1, 0)))
        frame[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=5))
    obeys(lambda: decode(message_type, version, bytes(frame)))


@settings(max_examples=300)
@given(case=st.sampled_from(CASES), data=st.data())
def test_pieces_cut_out_and_put_in(case: Case, data: st.DataObject) -> None:
    check_mutilated(case, data)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=case_name)
@settings(max_examples=40)
@given(data=st.data())
def test_pieces_cut_out_and_put_in_at_length(case: Case, data: st.DataObject) -> None:
    check_mutilated(case, data)


# -- bytes out of nowhere --------------------------------------------------------------------------


@settings(max_examples=500)
@given(
    key=st.sampled_from(KEYS) | st.integers(-2, 100),
    version=st.integers(-1, 20),
    rest=st.binary(max_size=120),
)
def test_any_bytes_as_a_request(key: int, version: int, rest: bytes) -> None:
    frame = struct.pack(">hh", key, version) + rest
    obeys(lambda: decode_request(frame))


@settings(max_examples=300)
@given(key=st.sampled_from(KEYS), data=st.data(), frame=st.binary(max_size=120))
def test_any_bytes_as_a_response(key: int, data: st.DataObject, frame: bytes) -> None:
    version = data.draw(st.integers(APIS[key].versions.first, APIS[key].versions.last))
    obeys(lambda: decode_response(frame, key, version))


@given(data_type=st.sampled_from(DATA_TYPES), data=st.binary(max_size=60))
def test_any_bytes_as_embedded_data(data_type: type, data: bytes) -> None:
    obeys(lambda: decode_embedded(data_type, data))


@given(chunks=st.lists(st.binary(max_size=20), max_size=10))
def test_any_bytes_as_frames(chunks: list[bytes]) -> None:
    splitter = FrameReceiver(frame_bytes_max=1000)

    def read() -> None:
        for chunk in chunks:
            splitter.feed(chunk)
            while (frame := splitter.next_frame()) is not None:
                obeys(lambda frame=frame: decode_request(frame))  # type: ignore[misc]

    obeys(read)


# -- memory ----------------------------------------------------------------------------------------

HUGE = {
    "2^31-1": "7fffffff",
    "compact 2^32-2": "ffffffff0f",
    "compact 2^31-1": "8080808008",
    "negative": "80000000",
}

FATAL_PRODUCE = bytes.fromhex("00 ffff 00007530 ffffffff0f").ljust(32, b"\0")
"""The 32 bytes of body that abort a process that reads them with kio 0.6.5."""


def test_a_claim_of_four_billion_topics_costs_nothing() -> None:
    assert len(FATAL_PRODUCE) == 32
    with pytest.raises(MalformedMessage, match="4294967294 elements at byte 12 are more than"):
        decode(ProduceRequest, 9, FATAL_PRODUCE)
    assert peak_bytes(lambda: decode(ProduceRequest, 9, FATAL_PRODUCE)) < 20_000


@pytest.mark.parametrize("claim", HUGE.values(), ids=HUGE)
def test_huge_lengths_and_counts_anywhere_cost_nothing(claim: str) -> None:
    for message_type, version in CASES[::7]:
        frames = with_claims(wired(sample(message_type, version), version), bytes.fromhex(claim))
        peak = peak_bytes(lambda: read_all(message_type, version, frames))  # noqa: B023
        assert peak < 100_000


def with_claims(data: bytes, claim: bytes) -> list[bytes]:
    return [data[:at] + claim + data[at + len(claim) :] for at in range(len(data))]


def read_all(message_type: type, version: int, frames: list[bytes]) -> None:
    for frame in frames:
        obeys(lambda: decode(message_type, version, frame))  # noqa: B023


def dense_metadata_request(topics: int) -> bytes:
    """A frame that is nothing but array: two bytes an element, many times that in memory."""
    return struct.pack(">i", topics) + b"\0\0" * topics + b"\0" * 3


def test_the_elements_of_a_message_are_limited() -> None:
    data = dense_metadata_request(1000)
    assert len(decode(MetadataRequest, 8, data, elements_max=1000).topics or ()) == 1000
    with pytest.raises(MalformedMessage, match="1000 elements"):
        decode(MetadataRequest, 8, data, elements_max=999)


def test_the_limit_is_for_all_arrays_together() -> None:
    topics = [sample(ProduceRequest, 9).topic_data[0] for _ in range(10)]  # two partitions in each
    message = ProduceRequest(acks=1, timeout_ms=1, topic_data=topics)
    data = wired(message, 9)
    assert decode(ProduceRequest, 9, data, elements_max=30) == message
    with pytest.raises(MalformedMessage, match="elements"):
        decode(ProduceRequest, 9, data, elements_max=29)


@pytest.mark.parametrize(
    ("message_type", "version", "data"),
    [
        (MetadataRequest, 8, dense_metadata_request(1 << 21)),
        (DescribeGroupsRequest, 2, struct.pack(">i", 1 << 21) + b"\0\0" * (1 << 21)),
        (ListConfigResourcesRequest, 1, encode_uvarint((1 << 21) + 1) + bytes((1 << 21) + 1)),
    ],
    ids=["structs", "strings", "numbers"],
)
def test_a_dense_frame_is_refused_before_it_is_unfolded(
    message_type: type, version: int, data: bytes
) -> None:
    with pytest.raises(MalformedMessage, match="2097152 elements"):
        decode(message_type, version, data)
    assert peak_bytes(lambda: decode(message_type, version, data)) < 20_000
