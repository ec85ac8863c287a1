"""The marks that end transactions."""

from __future__ import annotations

import pytest

from stratamq.model.errors import CorruptBatch
from stratamq.model.record import Record
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import (
    ControlType,
    check_batch,
    check_crc,
    control_type,
    decode_batch,
    encode_control,
    encode_skip,
    is_skip,
    read_header,
)
from tests.wire.samples import NOW, ROOM

FAR = 1 << 40


@pytest.mark.parametrize(
    ("kind", "key"),
    [(ControlType.ABORT, b"\0\0\0\0"), (ControlType.COMMIT, b"\0\0\0\1")],
)
def test_a_mark_is_written_as_kafka_writes_it(kind: ControlType, key: bytes) -> None:
    data = encode_control(
        kind,
        producer_id=9,
        producer_epoch=2,
        coordinator_epoch=0x01020304,
        now_ms=NOW,
        base_offset=50,
        leader_epoch=6,
    )
    header = check_batch(data, ROOM)
    assert header.is_control
    assert header.is_transactional
    assert header[9:12] == (9, 2, -1)
    assert (header.base_offset, header.leader_epoch, header.max_timestamp) == (50, 6, NOW)
    (mark,) = decode_batch(header, data)
    assert mark.key == key
    assert mark.value == b"\0\0\1\2\3\4"
    assert control_type(mark) is kind


def test_marks_of_later_versions_are_still_told_apart() -> None:
    assert control_type(Record(key=b"\0\7\0\1and more")) is ControlType.COMMIT


@pytest.mark.parametrize("key", [b"\0\0\0\2", b"\0\0\xff\xff", b"\0\0\x7f\0"])
def test_other_marks_are_unknown(key: bytes) -> None:
    assert control_type(Record(key=key)) is ControlType.UNKNOWN


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_mark_needs_its_key(key: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        control_type(Record(key=key))


@pytest.mark.parametrize(("base", "last"), [(7, 7), (7, 1000), (FAR, FAR + (1 << 31) - 1)])
def test_a_skip_mark_covers_offsets_and_ends_nothing(base: int, last: int) -> None:
    data = encode_skip(Offset(base), Offset(last), leader_epoch=3)
    header = read_header(data)
    assert check_crc(data, header)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (base, last, 3)
    assert (header.is_control, header.is_transactional, header.producer_id) == (True, False, -1)
    assert header.max_timestamp == -1
    (mark,) = decode_batch(header, data)
    assert (mark.offset, mark.key) == (last, b"\0\0\0\1")
    assert is_skip(header)


def test_marks_of_transactions_skip_nothing() -> None:
    data = encode_control(
        ControlType.COMMIT, producer_id=0, producer_epoch=0, coordinator_epoch=0, now_ms=NOW
    )
    assert not is_skip(read_header(data))
