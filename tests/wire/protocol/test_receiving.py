"""Large frames in buffers: the same frames as the splitter cuts, no memory for claims, and no
buffer used again while there is a view of it."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.wire.kafka.protocol import (
    APIS,
    Frame,
    FrameReceiver,
    FrameTooLarge,
    MalformedMessage,
    ReceiveBuffers,
    RequestHeader,
    codec,
    decode_request,
    encode_request,
)
from stratamq.wire.kafka.protocol.decoding import holds_records
from stratamq.wire.kafka.protocol.frames import BUFFER_BYTES, BUFFERS_MAX, LARGE_BYTES, SIZE
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest
from stratamq.wire.kafka.protocol.messages.produce import ProduceRequest
from tests.wire.protocol.support import CASES, case_name, sample, wired
from tests.wire.protocol.test_frames import framed

BIG = LARGE_BYTES + 1
READ_BYTES = 1000


def read_into(receiver: FrameReceiver, stream: bytes) -> bytes:
    """As a socket does: into the buffer where there is one. What is left of the stream."""
    buffer = receiver.buffer()
    if buffer is None:
        receiver.feed(stream[:READ_BYTES])
        return stream[READ_BYTES:]
    part = stream[: len(buffer)]
    buffer[: len(part)] = part
    receiver.filled(len(part))
    return stream[len(part) :]


def received(receiver: FrameReceiver, stream: bytes) -> list[Frame]:
    frames: list[Frame] = []
    while stream:
        stream = read_into(receiver, stream)
        frames += iter(receiver.next_frame, None)
    return frames


def large(fill: bytes, size: int = BIG) -> bytes:
    return fill * size


def begun(buffers: ReceiveBuffers, size: int) -> FrameReceiver:
    """In the midst of a frame of this size."""
    receiver = FrameReceiver(buffers, 1 << 31)
    receiver.feed(SIZE.pack(size) + b"x")
    assert receiver.next_frame() is None
    return receiver


sizes = st.integers(0, 50) | st.sampled_from(
    [LARGE_BYTES - 1, LARGE_BYTES, BIG, 200_000, BUFFER_BYTES, BUFFER_BYTES + 1]
)


@settings(max_examples=30, deadline=None)
@given(wanted=st.lists(sizes, max_size=5), data=st.data())
def test_the_same_frames_as_without_buffers(wanted: list[int], data: st.DataObject) -> None:
    """However the stream is cut, and whichever of the ways in its pieces take."""
    stream = framed(*(bytes([number]) * size for number, size in enumerate(wanted)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    splitter, receiver = FrameReceiver(), FrameReceiver(ReceiveBuffers())
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        piece = stream[start:end]
        splitter.feed(piece)
        expected = list(iter(splitter.next_frame, None))
        if data.draw(st.booleans()):
            receiver.feed(piece)
            assert list(iter(receiver.next_frame, None)) == expected
        else:
            assert received(receiver, piece) == expected
        assert receiver.held_bytes == splitter.held_bytes
    assert receiver.held_bytes == 0


def test_small_frames_are_bytes_and_large_ones_views() -> None:
    small, view = received(FrameReceiver(ReceiveBuffers()), framed(b"small", large(b"l")))
    assert type(small) is bytes
    assert type(view) is memoryview


def test_a_buffer_is_used_again_when_nobody_looks_at_it() -> None:
    buffers = ReceiveBuffers()
    receiver = FrameReceiver(buffers)
    (first,) = received(receiver, framed(large(b"a")))
    (second,) = received(receiver, framed(large(b"b")))
    assert bytes(first) == large(b"a")
    kept = second[-5:]
    del first, second
    (third,) = received(receiver, framed(large(b"c")))
    (fourth,) = received(receiver, framed(large(b"d")))
    assert kept == b"bbbbb", "a slice keeps its buffer"
    assert (third[:1], fourth[:1]) == (b"c", b"d")
    assert len(buffers._buffers) == 3


def test_frames_that_are_under_way_have_a_buffer_each() -> None:
    buffers = ReceiveBuffers()
    receivers = [begun(buffers, BIG) for _ in range(BUFFERS_MAX + 3)]
    frames = [
        received(receiver, large(b"%c" % number)[1:])[0]
        for number, receiver in enumerate(receivers)
    ]
    assert [bytes(frame[1:]) for frame in frames] == [
        large(b"%c" % number)[1:] for number in range(BUFFERS_MAX + 3)
    ]
    assert len(buffers._buffers) == BUFFERS_MAX


def test_whoever_leaves_gives_its_buffer_back() -> None:
    buffers = ReceiveBuffers()
    for _ in range(3):
        leaving = begun(buffers, BIG)
        assert leaving.buffer() is not None
        leaving.close()
    assert len(buffers._buffers) == 1


@pytest.mark.parametrize("size", [BIG, BUFFER_BYTES, BUFFER_BYTES + 1, (1 << 31) - 1])
def test_claims_take_no_memory(size: int) -> None:
    buffers = ReceiveBuffers()
    tracemalloc.start()
    try:
        claims = [begun(buffers, size) for _ in range(100)]
        assert tracemalloc.get_traced_memory()[1] < 100 * 2048
    finally:
        tracemalloc.stop()
    assert len(claims) == 100
    assert not buffers._buffers


def test_of_the_largest_only_what_came_is_in_memory() -> None:
    receiver = begun(ReceiveBuffers(), 1 << 30)
    before = resident_bytes()
    for _ in range(1000):
        read_into(receiver, bytes(READ_BYTES))
    assert receiver.held_bytes > 900 * READ_BYTES
    assert resident_bytes() - before < 64 << 20, "pages may be huge"


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_size_over_the_limit_is_refused() -> None:
    receiver = FrameReceiver(ReceiveBuffers(), frame_bytes_max=BIG)
    receiver.feed(framed(large(b"x")) + SIZE.pack(BIG + 1))
    assert receiver.next_frame() == large(b"x")
    with pytest.raises(FrameTooLarge):
        receiver.next_frame()


# -- reading from a view ---------------------------------------------------------------------------

HOLDERS = [case for case in CASES if holds_records(case[0])]


@pytest.mark.parametrize("case", HOLDERS, ids=case_name)
def test_what_holds_records_is_read_from_a_view_as_from_bytes(case: tuple[type, int]) -> None:
    message_type, version = case
    data = wired(sample(message_type, version), version)
    read = codec.decode(message_type, version, data)
    assert codec.decode(message_type, version, memoryview(bytearray(data))) == read
    for end in range(len(data)):
        with pytest.raises(MalformedMessage):
            codec.decode(message_type, version, memoryview(data)[:end])


@pytest.mark.parametrize("request_type", [ProduceRequest, MetadataRequest])
def test_requests_are_read_from_views(request_type: type) -> None:
    version = next(api for api in APIS.values() if api.request is request_type).versions.last
    body = sample(request_type, version)
    frame = b"".join(encode_request(body, version, 7, "näme"))[SIZE.size :]
    header, read, _ = decode_request(memoryview(bytearray(frame)))
    assert header == RequestHeader(header.api_key, version, 7, "näme")
    assert read == decode_request(frame).body
