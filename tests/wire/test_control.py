"""The marks that end transactions."""

from __future__ import annotations

import pytest

from stratamq.model.errors import CorruptBatch
from stratamq.model.record import Record
from stratamq.wire.kafka.records import (
    ControlType,
    check_batch,
    control_type,
    decode_batch,
    encode_control,
)
from tests.wire.samples import NOW, ROOM


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
