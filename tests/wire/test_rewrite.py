"""Placing batches and taking records out of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.errors import CorruptBatch
from stratamq.model.record import Record
from stratamq.model.types import LeaderEpoch, Offset
from stratamq.wire.kafka.records import (
    Compression,
    check_batch,
    check_crc,
    decode_batch,
    drop_records,
    encode_batch,
    place_batch,
    read_header,
)
from tests.wire import oracle
from tests.wire.samples import NOW, ROOM, record_lists, some_records, stored, whole

codecs = st.sampled_from(Compression)


@given(codecs, st.integers(0, (1 << 63) - 100), st.integers(-1, (1 << 31) - 1))
def test_a_placed_batch_differs_in_its_place_only(
    codec: Compression, base_offset: int, epoch: int
) -> None:
    data = encode_batch(some_records(6), now_ms=NOW, compression=codec)
    header, placed = whole(check_batch(data, ROOM), data, Offset(base_offset), LeaderEpoch(epoch))
    assert header == read_header(placed)
    assert (header.base_offset, header.leader_epoch) == (base_offset, epoch)
    assert placed[8:12] + placed[16:] == data[8:12] + data[16:]
    assert check_crc(placed, header)
    assert decode_batch(header, placed) == stored(some_records(6), base_offset)


def test_placing_reads_only_its_own_batch() -> None:
    data = encode_batch(some_records(3), now_ms=NOW)
    header, placed = whole(read_header(data), data + b"more", Offset(1), LeaderEpoch(1))
    assert len(placed) == header.size_bytes == len(data)


def test_a_large_batch_is_not_copied() -> None:
    data = encode_batch([Record(b"v" * 5000)], now_ms=NOW)
    header, (place, rest) = place_batch(read_header(data), data, Offset(7), LeaderEpoch(3))
    assert isinstance(rest, memoryview)
    assert rest.obj is data
    assert read_header(b"".join((place, rest))) == header
    assert (header.base_offset, header.leader_epoch) == (7, 3)
    assert read_header(data).base_offset == 0, "what the producer gave is not touched"


def test_append_time_stamps_the_batch() -> None:
    data = encode_batch(some_records(3), now_ms=NOW)
    header, placed = whole(read_header(data), data, Offset(4), LeaderEpoch(2), append_time_ms=123)
    assert header == read_header(placed)
    assert header.uses_log_append_time
    assert header.max_timestamp == 123
    assert (header.base_offset, header.leader_epoch) == (4, 2)
    assert check_crc(placed, header)
    assert placed[61:] == data[61:]


def test_a_batch_already_under_append_time_is_stamped_anew() -> None:
    data = encode_batch(some_records(3), now_ms=NOW)
    header, first = whole(read_header(data), data, Offset(0), LeaderEpoch(0), append_time_ms=5)
    again, second = whole(header, first, Offset(0), LeaderEpoch(0), append_time_ms=6)
    assert again.max_timestamp == 6
    assert check_crc(second, again)


def test_a_wrong_maximum_timestamp_is_set_right() -> None:
    data = encode_batch(some_records(3), now_ms=NOW)
    header = read_header(data)
    right, placed = whole(header, data, Offset(4), LeaderEpoch(2), max_timestamp=NOW + 50)
    assert right == read_header(placed)
    assert right.max_timestamp == NOW + 50
    assert not right.uses_log_append_time
    assert right.crc != header.crc
    assert check_crc(placed, right)
    same, _ = whole(header, data, Offset(4), LeaderEpoch(2), max_timestamp=header.max_timestamp)
    assert same.crc == header.crc


def test_a_cut_off_batch_is_never_placed() -> None:
    data = encode_batch(some_records(3), now_ms=NOW)
    with pytest.raises(AssertionError):
        whole(read_header(data), data[:-1], Offset(0), LeaderEpoch(0))


@given(codecs, record_lists, st.sets(st.integers(90, 130)))
def test_dropped_records_are_gone_and_the_others_untouched(
    codec: Compression, records: list[Record], offsets: set[int]
) -> None:
    data = encode_batch(
        records,
        now_ms=NOW,
        base_offset=100,
        leader_epoch=4,
        compression=codec,
        producer_id=7,
        producer_epoch=1,
        base_sequence=30,
        transactional=True,
    )
    header = read_header(data)
    left = [record for record in stored(records, 100) if record.offset not in offsets]
    thinned = drop_records(header, data, offsets, ROOM)
    if not left:
        assert thinned is None
    elif len(left) == len(records):
        assert thinned is data
    else:
        assert thinned is not None
        after = read_header(thinned)
        assert check_crc(thinned, after)
        assert decode_batch(after, thinned) == left
        assert after.max_timestamp == max(record.timestamp for record in left)
        own = {"crc": 0, "batch_length": 0, "record_count": 0, "max_timestamp": 0}
        assert after._replace(**own) == header._replace(**own)


def test_record_bytes_are_kept_verbatim() -> None:
    """Even where our encoder would have written them otherwise."""
    odd = [oracle.PlainRecord(b"k", b"v", [(b"tag", b"t"), (b"h", b"1")], NOW, i) for i in range(3)]
    data = oracle.encode(odd)
    one = len(oracle.encode_record(odd[0], 0, NOW))
    thinned = drop_records(read_header(data), data, {1})
    assert thinned is not None
    assert thinned[61:] == data[61 : 61 + one] + data[61 + 2 * one :]


def test_dropping_twice_is_dropping_both() -> None:
    data = encode_batch(some_records(6), now_ms=NOW)
    once = drop_records(read_header(data), data, [1, 4])
    first = drop_records(read_header(data), data, [4])
    assert first is not None
    assert drop_records(read_header(first), memoryview(first), [1]) == once


def test_nothing_is_dropped_from_a_damaged_batch() -> None:
    data = bytearray(encode_batch(some_records(6), now_ms=NOW))
    data[61] ^= 0x40
    with pytest.raises(CorruptBatch):
        drop_records(read_header(data), data, [1])


def test_the_same_bytes_come_back_when_no_record_was_at_those_offsets() -> None:
    data = encode_batch(some_records(6), now_ms=NOW)
    sparse = drop_records(read_header(data), data, [2])
    assert sparse is not None
    assert drop_records(read_header(sparse), sparse, [2]) is sparse
    assert drop_records(read_header(data), memoryview(data + b"more"), [77]) == data
