"""Bytes that were not made by our encoder."""

from __future__ import annotations

from stratamq.model.record import Record
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import check_batch, decode_batch, encode_batch
from tests.wire import oracle

HAND_MADE = bytes.fromhex(
    "000000000000002a"  # base offset 42
    "0000004a"  # 74 bytes follow
    "00000005"  # leader epoch 5
    "02"  # magic
    "00015bee"  # CRC32C of everything behind it
    "0000"  # attributes: not compressed, create time
    "00000001"  # last offset delta
    "00000000000003e8"  # base timestamp 1000
    "00000000000003eb"  # max timestamp 1003
    "ffffffffffffffff" "ffff" "ffffffff"  # no producer id, epoch, sequence
    "00000002"  # two records
    # 17 bytes: attributes, both deltas 0, key "k", value "v", two headers: h is null, tag is "t"
    "22" "00" "00" "00" "026b" "0276" "04" "0268" "01" "06746167" "0274"
    # 6 bytes: attributes, 3 ms later, delta 1, null key, null value, no headers
    "0c" "00" "06" "02" "01" "01" "00"
)  # fmt: skip

FROM_A_GO_CLIENT = bytes.fromhex(
    "0000000000000000 00000046 00000000 02 547961fd 0000 00000000 000001588dcd5938"
    "0000000000000000 0000000000000000 0000 00000000 00000001"
    "28 00 0a 00 08 01020304 06 050607 02 06 08090a 04 0b0c"
)
"""A vector that circulates among client libraries. Its max timestamp is wrong, as they may be."""

RECORDS = [
    Record(b"v", b"k", ((b"h", None),), (b"t",), TimestampMs(1000), Offset(42)),
    Record(None, None, (), (), TimestampMs(1003), Offset(43)),
]


def test_the_hand_made_batch_is_read_field_by_field() -> None:
    header = check_batch(HAND_MADE, max_bytes=len(HAND_MADE))
    assert tuple(header) == (42, 74, 5, 2, 0x00015BEE, 0, 1, 1000, 1003, -1, -1, -1, 2)
    assert decode_batch(header, HAND_MADE) == RECORDS


def test_the_hand_made_batch_is_written_byte_for_byte() -> None:
    assert encode_batch(RECORDS, now_ms=7, base_offset=42, leader_epoch=5) == HAND_MADE


def test_another_clients_batch_is_read() -> None:
    header = check_batch(FROM_A_GO_CLIENT, max_bytes=1000)
    assert decode_batch(header, FROM_A_GO_CLIENT) == [
        Record(
            value=b"\5\6\7",
            key=b"\1\2\3\4",
            headers=((b"\x08\x09\x0a", b"\x0b\x0c"),),
            timestamp=TimestampMs(0x1588DCD5938 + 5),
            offset=Offset(0),
        )
    ]


def test_the_oracle_agrees_with_published_check_values() -> None:
    assert oracle.crc32c(b"123456789") == 0xE3069283
    assert oracle.fnv1a(b"") == 0xCBF29CE484222325
    assert oracle.fnv1a(b"foobar") == 0x85944171F73967E8
    assert oracle.decode(HAND_MADE).records[0].headers == [(b"h", None), (b"tag", b"t")]
