"""The same batches through another implementation, both ways and with every codec."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.record import Record
from stratamq.model.types import TimestampMs
from stratamq.wire.kafka.records import (
    Compression,
    ControlType,
    check_batch,
    decode_batch,
    encode_batch,
    encode_control,
    read_header,
)
from tests.wire.kafka_python import DefaultRecord, DefaultRecordBatch, DefaultRecordBatchBuilder
from tests.wire.samples import NOW, ROOM, nullable, stored

names = st.text(max_size=8).filter(lambda name: name != "tag").map(str.encode)  # it wants UTF-8
records = st.lists(
    st.builds(
        Record,
        value=nullable | st.just(b"compressible " * 200),
        key=nullable,
        headers=st.lists(st.tuples(names, nullable), max_size=3).map(tuple),
        tags=st.lists(st.binary(max_size=20), max_size=2).map(tuple),
        timestamp=st.integers(1, 1 << 42).map(TimestampMs),
    ),
    min_size=1,
    max_size=12,
)


def as_theirs(record: Record) -> tuple[object, ...]:
    headers = [(name.decode(), value) for name, value in record.headers]
    headers += [("tag", tag) for tag in record.tags]
    return record.offset, record.timestamp, record.key, record.value, headers


def from_theirs(record: DefaultRecord) -> tuple[object, ...]:
    return record.offset, record.timestamp, record.key, record.value, record.headers


@pytest.mark.parametrize("codec", Compression)
@given(given_records=records)
def test_they_read_what_we_write(codec: Compression, given_records: list[Record]) -> None:
    data = encode_batch(
        given_records,
        now_ms=NOW,
        base_offset=70,
        leader_epoch=3,
        compression=codec,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
        transactional=True,
    )
    theirs = DefaultRecordBatch(data)
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.leader_epoch, theirs.last_offset) == (
        70,
        3,
        69 + len(given_records),
    )
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (5, 1, 9)
    assert theirs.is_transactional
    assert theirs.compression_type == codec
    assert [from_theirs(record) for record in theirs] == [
        as_theirs(record) for record in stored(given_records, 70)
    ]


@pytest.mark.parametrize("codec", Compression)
@given(given_records=records)
def test_we_read_what_they_write(codec: Compression, given_records: list[Record]) -> None:
    builder = DefaultRecordBatchBuilder(2, int(codec), False, -1, -1, -1, ROOM)
    for record in stored(given_records):
        offset, timestamp, key, value, headers = as_theirs(record)
        assert builder.append(offset, timestamp, key, value, headers) is not None
    data = bytes(builder.build())
    header = check_batch(data, ROOM)
    assert decode_batch(header, data, ROOM) == stored(given_records)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_their_compressed_batches_are_really_compressed(codec: Compression) -> None:
    """They leave out compression that does not pay; this one pays."""
    builder = DefaultRecordBatchBuilder(2, int(codec), False, -1, -1, -1, ROOM)
    builder.append(0, NOW, b"k", b"compressible " * 2000, [])
    data = bytes(builder.build())
    assert read_header(data).compression is codec
    (record,) = decode_batch(read_header(data), data)
    assert record.value == b"compressible " * 2000


def test_they_read_our_control_marks() -> None:
    data = encode_control(
        ControlType.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=1, now_ms=NOW
    )
    batch = DefaultRecordBatch(data)
    assert batch.validate_crc()
    assert batch.is_control_batch
    (mark,) = batch
    assert mark.abort
    assert not mark.commit
