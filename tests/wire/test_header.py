"""Headers: what is read, what is trusted, what is refused."""

from __future__ import annotations

import struct

import pytest

from stratamq.model.errors import BatchTooLarge, CorruptBatch, StrataError, UnsupportedFormat
from stratamq.wire.kafka.records import (
    Compression,
    check_batch,
    check_crc,
    encode_batch,
    read_header,
)
from tests.wire.samples import NOW, ROOM, some_records, with_crc, with_field

BATCH = encode_batch(some_records(5), now_ms=NOW, base_offset=10, leader_epoch=2)


def old_message(magic: int) -> bytes:
    """A message of a format before record batches: smaller than our header."""
    body = struct.pack(">Ibb", 0, magic, 0) + struct.pack(">i", -1) + struct.pack(">i", 1) + b"x"
    return struct.pack(">qi", 0, len(body)) + body


def test_a_sound_batch_passes() -> None:
    header = check_batch(BATCH, max_bytes=len(BATCH))
    assert header == read_header(BATCH)
    assert check_crc(BATCH, header)


def test_a_header_is_read_where_it_lies() -> None:
    assert read_header(b"abc" + BATCH, 3) == read_header(BATCH)
    assert check_crc(b"abc" + BATCH, read_header(BATCH), 3)
    assert not check_crc(b"abc" + BATCH, read_header(BATCH), 2)
    assert read_header(BATCH[:61]) == read_header(BATCH)


@pytest.mark.parametrize("position", [-1, len(BATCH) - 60, len(BATCH), len(BATCH) + 5])
def test_no_header_is_read_from_outside(position: int) -> None:
    with pytest.raises(CorruptBatch):
        read_header(BATCH, position)


def test_a_crc_needs_all_its_bytes() -> None:
    assert not check_crc(BATCH[:-1], read_header(BATCH))
    longer = with_field(BATCH, 8, ">i", len(BATCH) - 12 + 5)  # the CRC fits what is there
    assert not check_crc(longer, read_header(longer))


def test_every_flipped_bit_behind_the_crc_is_seen() -> None:
    for position in range(17, len(BATCH)):
        damaged = bytearray(BATCH)
        damaged[position] ^= 1 << (position % 8)
        with pytest.raises((CorruptBatch, UnsupportedFormat)):
            check_batch(bytes(damaged), ROOM)


REFUSED = {
    "empty": (b"", CorruptBatch),
    "cut off in the header": (BATCH[:60], CorruptBatch),
    "cut off in the records": (BATCH[:-1], CorruptBatch),
    "bytes behind it": (BATCH + b"\0", CorruptBatch),
    "two batches": (BATCH + BATCH, CorruptBatch),
    "length too small": (with_field(BATCH, 8, ">i", 48), CorruptBatch),
    "length negative": (with_field(BATCH, 8, ">i", -1), CorruptBatch),
    "length huge": (with_field(BATCH, 8, ">i", (1 << 31) - 1), CorruptBatch),
    "magic 0": (old_message(0), UnsupportedFormat),
    "magic 1": (old_message(1), UnsupportedFormat),
    "magic 3": (with_field(BATCH, 16, ">b", 3), UnsupportedFormat),
    "codec 5": (with_field(BATCH, 21, ">h", 5), UnsupportedFormat),
    "codec 6": (with_field(BATCH, 21, ">h", 6), UnsupportedFormat),
    "codec 7": (with_field(BATCH, 21, ">h", 7), UnsupportedFormat),
    "no records": (with_field(with_field(BATCH, 57, ">i", 0), 23, ">i", -1), CorruptBatch),
    "negative count": (with_field(with_field(BATCH, 57, ">i", -4), 23, ">i", -5), CorruptBatch),
    "count and last delta differ": (with_field(BATCH, 23, ">i", 5), CorruptBatch),
    "negative last delta": (with_field(BATCH, 23, ">i", -1), CorruptBatch),
    "more records than bytes": (
        with_field(with_field(BATCH, 57, ">i", 500), 23, ">i", 499),
        CorruptBatch,
    ),
    "too large": (BATCH + bytes(ROOM), BatchTooLarge),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_batch_is_refused_by_name(name: str) -> None:
    data, error = REFUSED[name]
    with pytest.raises(StrataError) as caught:
        check_batch(data, ROOM)
    assert type(caught.value) is error


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_compressed_batch_cannot_claim_any_count(codec: Compression) -> None:
    honest = encode_batch(some_records(5), now_ms=NOW, compression=codec)
    check_batch(honest, ROOM)
    absurd = (1 << 31) - 1
    lie = with_field(with_field(honest, 57, ">i", absurd), 23, ">i", absurd - 1)
    with pytest.raises(CorruptBatch, match="cannot lie in"):
        check_batch(lie, ROOM)


def test_the_limit_is_inclusive() -> None:
    check_batch(BATCH, len(BATCH))
    with pytest.raises(BatchTooLarge):
        check_batch(BATCH, len(BATCH) - 1)


def test_flags_are_read_from_their_bits() -> None:
    flags = {0x08: "uses_log_append_time", 0x10: "is_transactional", 0x20: "is_control"}
    for bit, name in flags.items():
        header = read_header(with_field(BATCH, 21, ">h", bit))
        assert [getattr(header, other) for other in flags.values()].count(True) == 1
        assert getattr(header, name)


def test_unknown_codecs_are_refused_by_the_property_too() -> None:
    with pytest.raises(UnsupportedFormat):
        _ = read_header(with_crc(BATCH))._replace(attributes=5).compression
