"""Encoding and decoding, against the oracle and against each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.errors import BatchTooLarge, CorruptBatch, InvalidRecord
from stratamq.model.record import Record
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import (
    BatchSpan,
    Compression,
    check_batch,
    decode_batch,
    decode_some,
    encode_batch,
    read_header,
    walk,
)
from tests.wire import oracle
from tests.wire.samples import (
    NOW,
    ROOM,
    from_plain,
    header_names,
    nullable,
    plain,
    record_lists,
    some_records,
    stored,
    timestamps,
    whole,
)

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


@given(record_lists, st.integers(0, 1 << 60), st.integers(-1, INT32_MAX))
def test_our_encoder_writes_what_the_oracle_writes(
    records: list[Record], base_offset: int, leader_epoch: int
) -> None:
    ours = encode_batch(records, now_ms=NOW, base_offset=base_offset, leader_epoch=leader_epoch)
    expected = [plain(record) for record in stored(records, base_offset)]
    assert ours == oracle.encode(expected, base_offset, leader_epoch)
    assert oracle.decode(ours).records == expected


plain_records = st.builds(
    oracle.PlainRecord,
    key=nullable,
    value=nullable,
    headers=st.lists(st.tuples(header_names, nullable), max_size=5),
    timestamp=timestamps,
    offset=st.just(0),
)


@given(st.lists(st.tuples(plain_records, st.integers(1, 300)), min_size=1, max_size=10))
def test_our_decoder_reads_what_the_oracle_wrote(
    drawn: list[tuple[oracle.PlainRecord, int]],
) -> None:
    offset, records = 99, []
    for record, gap in drawn:  # with holes, as compaction leaves them
        offset += gap
        records.append(record._replace(offset=offset))
    data = oracle.encode(records, 100)
    expected = [from_plain(record) for record in records]
    assert decode_batch(read_header(data), data) == expected
    wanted = [record.offset for record in expected[::2]]
    assert decode_some(read_header(data), data, wanted) == expected[::2]


@pytest.mark.parametrize("codec", Compression)
@given(records=record_lists)
def test_what_goes_in_comes_out(codec: Compression, records: list[Record]) -> None:
    data = encode_batch(records, now_ms=NOW, base_offset=5, compression=codec)
    header = check_batch(data, ROOM)
    assert header.compression is codec
    assert decode_batch(header, data, ROOM) == stored(records, 5)


def test_the_header_carries_what_was_asked_for() -> None:
    data = encode_batch(
        some_records(4),
        now_ms=NOW,
        base_offset=1000,
        leader_epoch=8,
        producer_id=1 << 40,
        producer_epoch=3,
        base_sequence=77,
        transactional=True,
    )
    header = check_batch(data, ROOM)
    assert header[9:12] == (1 << 40, 3, 77)
    assert (header.base_offset, header.last_offset, header.next_offset) == (1000, 1003, 1004)
    assert (header.leader_epoch, header.record_count, header.size_bytes) == (8, 4, len(data))
    assert header.is_transactional
    assert not header.is_control
    assert not header.uses_log_append_time
    assert check_batch(encode_batch([Record()], now_ms=1, control=True), ROOM).is_control


def test_a_record_without_a_timestamp_gets_now() -> None:
    old = Record(b"x", timestamp=TimestampMs(5))
    data = encode_batch([Record(b"a"), old, Record(b"b")], now_ms=NOW)
    header = read_header(data)
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW)
    assert [record.timestamp for record in decode_batch(header, data)] == [NOW, 5, NOW]


def test_offsets_are_kept_when_asked() -> None:
    records = [Record(b"a", offset=Offset(12)), Record(b"b", offset=Offset(40))]
    kept = encode_batch(records, now_ms=NOW, base_offset=10, keep_offsets=True)
    assert [r.offset for r in decode_batch(read_header(kept), kept)] == [12, 40]
    assert read_header(kept).last_offset == 40
    numbered = encode_batch(records, now_ms=NOW, base_offset=10)
    assert [r.offset for r in decode_batch(read_header(numbered), numbered)] == [10, 11]


@pytest.mark.parametrize(
    "offsets", [(9,), (10, 10), (12, 11), (10 + INT32_MAX + 1,), (-(1 << 63),)]
)
def test_offsets_that_do_not_ascend_cannot_be_kept(offsets: tuple[int, ...]) -> None:
    records = [Record(b"a", offset=Offset(offset)) for offset in offsets]
    with pytest.raises(InvalidRecord):
        encode_batch(records, now_ms=NOW, base_offset=10, keep_offsets=True)


@pytest.mark.parametrize(
    "record",
    [
        "text",
        (b"v", b"k", (), (), -1, -1),
        Record(value="text"),  # type: ignore[arg-type]
        Record(key=bytearray(b"k")),  # type: ignore[arg-type]
        Record(headers=[(b"a", b"b")]),  # type: ignore[arg-type]
        Record(headers=((b"a",),)),  # type: ignore[arg-type]
        Record(headers=((None, b"b"),)),  # type: ignore[arg-type]
        Record(headers=((b"a", "b"),)),  # type: ignore[arg-type]
        Record(tags=(None,)),  # type: ignore[arg-type]
        Record(tags=[b"t"]),  # type: ignore[arg-type]
        Record(timestamp=1.5),  # type: ignore[arg-type]
        Record(timestamp=TimestampMs(1 << 63)),
    ],
)
def test_what_no_batch_can_hold_is_refused(record: Record) -> None:
    with pytest.raises(InvalidRecord):
        encode_batch([Record(b"good"), record], now_ms=NOW)


def test_an_offset_that_wraps_around_is_refused() -> None:
    record = Record(b"a", offset=Offset(-INT64_MAX - 1))
    with pytest.raises(InvalidRecord):
        encode_batch([record], now_ms=NOW, base_offset=INT64_MAX, keep_offsets=True)
    data = encode_batch(some_records(2), now_ms=NOW, base_offset=INT64_MAX)
    with pytest.raises(CorruptBatch):
        decode_batch(read_header(data), data)


def test_timestamps_too_far_apart_are_refused() -> None:
    records = [Record(timestamp=TimestampMs(INT64_MAX)), Record(timestamp=TimestampMs(-2))]
    with pytest.raises(InvalidRecord):
        encode_batch(records, now_ms=NOW)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(InvalidRecord):
        encode_batch([], now_ms=NOW)


def test_log_append_time_is_every_records_time() -> None:
    data = encode_batch(some_records(6), now_ms=NOW)
    placed, data = whole(read_header(data), data, Offset(0), LeaderEpoch(0), append_time_ms=9)
    assert {record.timestamp for record in decode_batch(placed, data)} == {9}
    assert {record.timestamp for record in decode_some(placed, data, [1, 2])} == {9}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(kind: type) -> None:
    data = encode_batch(some_records(6), now_ms=NOW)
    buffer = kind(data)
    assert decode_batch(read_header(buffer), buffer) == stored(some_records(6))


def test_decode_some_takes_only_what_is_there() -> None:
    data = encode_batch(some_records(6), now_ms=NOW, base_offset=10)
    header = read_header(data)
    everything = stored(some_records(6), 10)
    assert decode_some(header, data, {15, 11, 3, 99}) == [everything[1], everything[5]]
    assert decode_some(header, data, []) == []


def test_unpacking_stops_at_its_limit() -> None:
    data = encode_batch(some_records(50), now_ms=NOW, compression=Compression.ZSTD)
    with pytest.raises(BatchTooLarge):
        decode_batch(read_header(data), data, 100)
    with pytest.raises(BatchTooLarge):
        decode_some(read_header(data), data, [1], 100)


def test_a_batch_that_is_cut_off_is_not_decoded() -> None:
    data = encode_batch(some_records(5), now_ms=NOW)
    header = read_header(data)
    with pytest.raises(CorruptBatch):
        decode_batch(header, data[:-1])
    assert decode_batch(header, data + b"next batch") == stored(some_records(5))


def test_decoded_records_are_like_any_others() -> None:
    """They are made without their constructor; nobody should be able to tell."""
    data = encode_batch(some_records(5), now_ms=NOW)
    decoded, made = decode_batch(read_header(data), data), stored(some_records(5))
    assert [hash(record) for record in decoded] == [hash(record) for record in made]
    assert {type(record) for record in decoded} == {Record}
    assert decoded[1]._replace(value=b"new")._asdict() == {**made[1]._asdict(), "value": b"new"}
    (span,) = walk(data)
    assert hash(span) == hash(BatchSpan(*span))


def test_decoded_records_outlive_their_buffer() -> None:
    buffer = bytearray(encode_batch(some_records(5), now_ms=NOW))
    records = decode_batch(read_header(buffer), buffer)
    buffer[:] = bytes(len(buffer))
    assert records == stored(some_records(5))
