"""The LZ4 kernel against plain Python and against the library: the same bytes or none, whatever the
frame, and never a byte outside its room."""

from __future__ import annotations

import random
import struct
from typing import Any

import cramjam
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.wire.kafka.records import Compression, decompress
from stratamq.wire.kafka.records._lz4 import unpack_frame

MAGIC = struct.pack("<I", 0x184D2204)
KIB64 = 4
"""As a frame numbers its block sizes."""
EDGE = b"\xa5" * 64


def plain_block(block: bytes, before: bytes) -> bytes:
    """A block by the book: literals, then a match, until literals end it."""
    out, at = bytearray(before), 0

    def length(first: int) -> int:
        nonlocal at
        total = first
        while first == 15 or (total > 15 and block[at - 1] == 255):
            first = 0
            total += block[at]
            at += 1
        return total

    while True:
        token = block[at]
        at += 1
        count = length(token >> 4)
        out += block[at : at + count]
        at += count
        if at == len(block):
            return bytes(out[len(before) :])
        distance = block[at] | block[at + 1] << 8
        at += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-distance])


def plain_frame(frame: bytes) -> bytes:
    """An ordinary frame; nothing is checked."""
    at = 7 + (8 if frame[4] & 8 else 0)
    out = b""
    while size := struct.unpack_from("<I", frame, at)[0]:
        block = frame[at + 4 : at + 4 + (size & 0x7FFFFFFF)]
        linked = not frame[4] & 0x20
        out += block if size >> 31 else plain_block(block, out if linked else b"")
        at += 4 + len(block)
    return out


def unpacked(frame: bytes, room: int) -> bytes | None:
    """By the kernel, in a room whose neighbourhood is watched."""
    memory = bytearray(EDGE + bytes(room) + EDGE)
    size = unpack_frame(frame, memoryview(memory)[len(EDGE) : len(EDGE) + room])
    assert memory.startswith(EDGE)
    assert memory.endswith(EDGE)
    if size is None:
        return None
    assert size <= room
    return bytes(memory[len(EDGE) : len(EDGE) + size])


def library(frame: bytes) -> bytes | None:
    out = bytearray(1 << 19)
    try:
        return bytes(out[: cramjam.lz4.decompress_into(frame, out)])
    except cramjam.DecompressionError:
        return None


def packed(data: bytes, **options: Any) -> bytes:
    ordinary = {"block_linked": False, "block_size": KIB64, "store_size": False}
    return bytes(lz4.frame.compress(data, **{**ordinary, **options}))


contents = st.one_of(
    st.binary(max_size=300),
    st.text("ab", max_size=3000).map(str.encode),
    st.binary(min_size=1, max_size=20).map(lambda part: part * 300),
    st.integers(0, 3).map(lambda seed: random.Random(seed).randbytes(70_000)),
    st.integers(0, 3).map(lambda seed: bytes(random.Random(seed).choices(b"ABCDEFGH", k=140_000))),
)
options = st.fixed_dictionaries(
    {
        "block_linked": st.booleans(),
        "block_size": st.sampled_from([4, 5, 6, 7]),
        "store_size": st.booleans(),
        "compression_level": st.sampled_from([-5, 0, 3, 9]),
    }
)


@settings(max_examples=60, deadline=None)
@given(data=contents, how=options, spare=st.sampled_from([0, 1, 100]))
def test_what_libraries_pack(data: bytes, how: dict[str, Any], spare: int) -> None:
    frame = packed(data, **how)
    found = unpacked(frame, len(data) + spare)
    assert found is None or found == data == plain_frame(frame)
    assert unpacked(frame, len(data) + (4 << 20)) == data, "with room to spare it is taken"


def test_what_producers_send_is_taken_in_a_room_of_its_size() -> None:
    for data in (b"", b"x", b"abc" * 7000, random.Random(1).randbytes(200_000)):
        assert unpacked(packed(data), len(data)) == data


@pytest.mark.parametrize(
    "frame",
    [
        packed(b"sums" * 100, block_checksum=True),
        packed(b"sums" * 100, content_checksum=True),
        packed(b"one") + packed(b"two"),
        packed(b"behind") + b"\0",
        b"\x50\x2a\x4d\x18\4\0\0\0skip" + packed(b"skipped"),
        packed(b"cut")[:-1],
        packed(b"cut")[:5],
        b"",
    ],
)
def test_what_is_not_ordinary_is_left_to_the_library(frame: bytes) -> None:
    assert unpacked(frame, 1 << 17) is None


@pytest.mark.parametrize("size", [0, 10, 299_999])
def test_what_does_not_fit_is_not_taken(size: int) -> None:
    assert unpacked(packed(bytes(300_000)), size) is None


def block_of(*parts: bytes) -> bytes:
    """An ordinary frame of one block."""
    head = packed(b"")[:7]
    body = b"".join(parts)
    return head + struct.pack("<I", len(body)) + body + bytes(4)


LITERALS = b"\x50" + b"final"
MALICIOUS = {
    "reaches before the frame": block_of(b"\x10a\x02\0", LITERALS),
    "distance nought": block_of(b"\x10a\0\0", LITERALS),
    "literals past the end": block_of(b"\xf0\xff\xff\xff\0abc"),
    "a length without an end": block_of(b"\xf0" + b"\xff" * 3000),
    "a match without an end": block_of(b"\x1fa\1\0" + b"\xff" * 3000),
    "ends with a match": block_of(b"\x10a\1\0"),
    "nothing at all": block_of(b""),
    "a block larger than any": block_of(bytes(70_000)),
}


@pytest.mark.parametrize("name", MALICIOUS)
def test_malicious_frames(name: str) -> None:
    for room in (0, 1, 17, 1000, 100_000):
        assert unpacked(MALICIOUS[name], room) is None


def run_of(size: int) -> bytes:
    """A literal, and a match that makes so many of it."""
    left, more = divmod(size - 1 - 4 - 15, 255)
    return b"\x1fa\1\0" + b"\xff" * left + bytes([more])


@pytest.mark.parametrize("literals", range(1, 8))
def test_a_full_block_ends_with_five_literals(literals: int) -> None:
    frame = block_of(run_of((1 << 16) - literals), bytes([literals << 4]) + b"z" * literals)
    found = unpacked(frame, 1 << 17)
    assert found == library(frame)
    assert (found is not None) is (literals >= 5)


@pytest.mark.parametrize("left", range(8, 16))
def test_literals_before_the_last_match_end_twelve_before_the_block(left: int) -> None:
    end = left - 4
    frame = block_of(run_of((1 << 16) - left - 3), b"\x30bcd\1\0", bytes([end << 4]) + b"z" * end)
    found = unpacked(frame, 1 << 17)
    assert found == library(frame)
    assert (found is not None) is (left >= 12)


@pytest.mark.parametrize("told", [300, 299, 301, 1 << 63, (1 << 64) - 1])
def test_a_frame_holds_what_it_says_it_holds(told: int) -> None:
    """With every sum that the changed head could have: one of them is right."""
    frame = bytearray(packed(b"abc" * 100, store_size=True))
    frame[6:14] = told.to_bytes(8, "little")
    for frame[14] in range(256):
        assert unpacked(bytes(frame), 1000) == library(bytes(frame))


def test_a_block_does_not_reach_into_the_one_before_unless_linked() -> None:
    first = b"\x50" + b"first"
    second = b"\x10a\5\0" + LITERALS
    head = packed(b"")[:7]
    blocks = b"".join(struct.pack("<I", len(one)) + one for one in (first, second))
    assert unpacked(head + blocks + bytes(4), 1000) is None
    linked = packed(random.Random(1).randbytes(100_000), block_linked=True)[:7]
    frame = linked + blocks + bytes(4)
    assert unpacked(frame, 1000) == plain_frame(frame) == library(frame)


def spoilt(frame: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, most of them where they matter: near the ends."""
    changed = bytearray(frame)
    for _ in range(rng.choice([1, 1, 2, 4])):
        near = rng.choice([rng.randrange(len(frame)), rng.randrange(40), -1 - rng.randrange(30)])
        at = max(-len(frame), min(near, len(frame) - 1))
        changed[at] = rng.choice([0, 1, 15, 0xF0, 0xFF, rng.randrange(256)])
    return bytes(changed[: rng.choice([len(frame), rng.randrange(len(frame) + 1)])])


@pytest.mark.parametrize("seed", range(8))
def test_what_is_taken_is_what_the_library_makes_of_it(seed: int) -> None:
    rng = random.Random(seed)
    taken = 0
    for _ in range(60):
        size = rng.choice([20, 100, 1000, 65_520, 66_000]) + rng.randrange(30)
        data = bytes(rng.choices(rng.choice([b"ab", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]), k=size))
        frame = packed(data, block_linked=rng.random() < 0.5, compression_level=rng.choice([0, 9]))
        for _ in range(10):
            bad = spoilt(frame, rng)
            found = unpacked(bad, rng.choice([size, size + 64, 200_000]))
            if found is not None:
                taken += 1
                assert found == library(bad)
    assert taken > 20, "some of it was harmless"


def test_batches_go_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"the same words again and again" * 10
    monkeypatch.setitem(
        decompress.__globals__["_FRAMED"], Compression.LZ4, lambda *_: pytest.fail("the long way")
    )
    assert decompress(Compression.LZ4, packed(data), 10_000) == data
