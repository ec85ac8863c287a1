"""Frames come out as they went in, however the stream was cut; lies about sizes are refused."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.wire.kafka.protocol import FrameReceiver, FrameTooLarge, MalformedFrame
from stratamq.wire.kafka.protocol.frames import SIZE

LIMIT = 100_000


def framed(*frames: bytes) -> bytes:
    return b"".join(SIZE.pack(len(frame)) + frame for frame in frames)


def drain(splitter: FrameReceiver) -> list[bytes]:
    return list(iter(splitter.next_frame, None))


frames = st.lists(
    st.binary(max_size=50) | st.integers(0, 20_000).map(lambda size: b"f" * size), max_size=6
)


@given(sent=frames, data=st.data())
def test_any_cut_gives_the_same_frames(sent: list[bytes], data: st.DataObject) -> None:
    stream = framed(*sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    splitter, received = FrameReceiver(None, LIMIT), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        splitter.feed(stream[start:end])
        received += drain(splitter)
    assert received == sent
    assert splitter.held_bytes == 0


@pytest.mark.parametrize("size", [1, 3, 7, 4095, 4096, 70_000])
def test_chunks_of_one_size(size: int) -> None:
    sent = [bytes([i]) * n for i, n in enumerate((1, 0, 8000, 66_000, 3, 90_000))]
    stream, received = framed(*sent), []
    splitter = FrameReceiver(None, LIMIT)
    for start in range(0, len(stream), size):
        splitter.feed(memoryview(stream)[start : start + size])
        received += drain(splitter)
    assert received == sent
    assert all(type(frame) is bytes for frame in received)


def test_frames_are_taken_one_by_one() -> None:
    splitter = FrameReceiver(None, LIMIT)
    splitter.feed(framed(b"a", b"b") + b"\0")
    assert splitter.next_frame() == b"a"
    assert splitter.held_bytes == 6
    assert splitter.next_frame() == b"b"
    assert splitter.next_frame() is None


def test_the_caller_may_reuse_its_buffer() -> None:
    splitter, buffer = FrameReceiver(None, LIMIT), bytearray(framed(b"first"))
    splitter.feed(memoryview(buffer))
    buffer[:] = b"\xff" * len(buffer)
    assert splitter.next_frame() == b"first"


@pytest.mark.parametrize(
    ("size", "refusal"),
    [
        (-1, MalformedFrame),
        (-(1 << 31), MalformedFrame),
        (LIMIT + 1, FrameTooLarge),
        ((1 << 31) - 1, FrameTooLarge),
    ],
)
def test_a_bad_size_is_refused_at_once_and_for_good(size: int, refusal: type[Exception]) -> None:
    splitter = FrameReceiver(None, LIMIT)
    splitter.feed(framed(b"good") + SIZE.pack(size) + b"x" * 5000)
    assert splitter.next_frame() == b"good"
    for _ in range(2):
        with pytest.raises(refusal, match=str(size)):
            splitter.next_frame()
    with pytest.raises(refusal):
        splitter.feed(framed(b"more"))
    assert splitter.held_bytes == 0


def test_a_frame_of_exactly_the_limit_is_taken() -> None:
    splitter = FrameReceiver(None, LIMIT)
    splitter.feed(framed(bytes(LIMIT)))
    assert splitter.next_frame() == bytes(LIMIT)


def test_a_claim_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        splitter = FrameReceiver()
        splitter.feed(SIZE.pack(100 << 20))
        assert splitter.next_frame() is None
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_a_frame_that_trickles_in_takes_no_more_than_its_bytes() -> None:
    count = 200_000
    tracemalloc.start()
    try:
        splitter = FrameReceiver()
        splitter.feed(SIZE.pack(1 << 20))
        for _ in range(count):
            splitter.feed(b"x")
        assert tracemalloc.get_traced_memory()[0] < 1.5 * count
    finally:
        tracemalloc.stop()
    assert splitter.held_bytes == count + 4


def test_what_was_taken_is_let_go() -> None:
    """Small frames that never end together with the bytes fed must not pile up behind them."""
    splitter, stream = FrameReceiver(), framed(b"frame of some bytes") * 3
    tracemalloc.start()
    try:
        splitter.feed(stream[:5])
        for _ in range(20_000):
            splitter.feed(stream[5:] + stream[:5])
            drain(splitter)
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
