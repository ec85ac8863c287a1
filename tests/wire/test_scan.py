"""Scanning: what the indexes get, and every way in which records can fail to add up."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.errors import BatchTooLarge, CorruptBatch
from stratamq.model.record import Record
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from stratamq.wire.kafka.records import (
    EMPTY_SCAN,
    BatchScan,
    Buffer,
    Compression,
    decode_batch,
    drop_records,
    encode_batch,
    find_faults,
    key_hash,
    read_header,
    scan_batch,
)
from tests.wire import oracle
from tests.wire.oracle import piece, varint
from tests.wire.samples import (
    NOW,
    ROOM,
    batch_of,
    plain,
    record_lists,
    some_records,
    stored,
    whole,
    with_field,
)


def scan(data: Buffer, keys: bool = True, tags: bool = True, consecutive: bool = True) -> BatchScan:
    return scan_batch(
        read_header(data),
        data,
        keys=keys,
        tags=tags,
        decompressed_max=ROOM,
        consecutive=consecutive,
    )


def entry(data: bytes, delta: int) -> bytes:
    return struct.pack(">QI", oracle.fnv1a(data), delta)


def expected_scan(records: list[oracle.PlainRecord]) -> BatchScan:
    keys = [entry(r.key, i) for i, r in enumerate(records) if r.key is not None]
    tags = [
        entry(value, i)
        for i, r in enumerate(records)
        for name, value in r.headers
        if name == b"tag" and value is not None
    ]
    newest = TimestampMs(max(r.timestamp for r in records))
    return BatchScan(b"".join(keys), b"".join(tags), newest, len(keys) < len(records))


@pytest.mark.parametrize("codec", Compression)
@given(records=record_lists)
def test_a_scan_packs_what_the_oracle_packs(codec: Compression, records: list[Record]) -> None:
    data = encode_batch(records, now_ms=NOW, compression=codec)
    expected = expected_scan([plain(record) for record in stored(records)])
    assert scan(data) == expected
    assert scan(data, keys=False) == expected._replace(keys=b"")
    assert scan(data, tags=False) == expected._replace(tags=b"")


@given(st.binary(max_size=300))
def test_key_hash_is_fnv1a(data: bytes) -> None:
    assert key_hash(data) == key_hash(bytearray(data)) == oracle.fnv1a(data)


def test_a_tag_is_only_a_header_of_exactly_that_name() -> None:
    headers = [(b"tags", b"1"), (b"ta", b"2"), (b"Tag", b"3"), (b"tag", None), (b"tag", b"")]
    data = oracle.encode([oracle.PlainRecord(b"k", b"v", headers, 5, 0)])
    assert scan(data).tags == entry(b"", 0)
    (record,) = decode_batch(read_header(data), data)
    assert record.tags == (b"",)
    assert record.headers == tuple(headers[:4])


def test_the_true_maximum_timestamp_is_found() -> None:
    records = [plain(record) for record in stored(some_records(5))]
    wrong = oracle.encode(records, max_timestamp=1)
    assert scan(wrong).max_timestamp == max(record.timestamp for record in records)


def test_under_log_append_time_the_header_knows() -> None:
    data = encode_batch(some_records(5), now_ms=NOW)
    _, data = whole(read_header(data), data, Offset(0), LeaderEpoch(0), append_time_ms=77)
    assert scan(data).max_timestamp == 77


def test_a_batch_emptied_by_compaction_scans_to_nothing() -> None:
    data = oracle.encode([], last_offset_delta=4, max_timestamp=9)
    assert scan(data) == EMPTY_SCAN._replace(max_timestamp=TimestampMs(9))
    assert decode_batch(read_header(data), data) == []


def test_holes_are_for_stored_batches_only() -> None:
    whole = encode_batch(some_records(5), now_ms=NOW)
    sparse = drop_records(read_header(whole), whole, {1})
    assert sparse is not None
    assert scan(sparse, consecutive=False).tags[8:12] == b"\0\0\0\0"
    with pytest.raises(CorruptBatch):
        scan(sparse, consecutive=True)


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_unpacking_is_bounded(codec: Compression) -> None:
    data = encode_batch([Record(bytes(1000))] * 50, now_ms=NOW, compression=codec)
    with pytest.raises(BatchTooLarge):
        scan_batch(read_header(data), data, keys=True, tags=True, decompressed_max=50_000)


# -- damage that the CRC does not give away ------------------------------------------------------


def framed(body: bytes) -> bytes:
    return varint(len(body)) + body


def record(delta: int = 0, key: bytes = b"\1", value: bytes = b"\1", rest: bytes = b"\0") -> bytes:
    """Attributes, timestamp delta 0, offset delta, key, value and whatever comes for headers."""
    return framed(b"\0\0" + varint(delta) + key + value + rest)


OVERLONG_32 = b"\x80\x80\x80\x80\x80\x00"
TOO_LARGE_32 = b"\xff\xff\xff\xff\x1f"
OVERLONG_64 = b"\x80" * 10 + b"\x00"
TOO_LARGE_64 = b"\xff" * 9 + b"\x02"

MALFORMED = {
    "no record where one is counted": batch_of(b""),
    "fewer records than counted": batch_of(record(0) + record(1), count=3),
    "more records than counted": batch_of(record(0) + record(1), count=1),
    "a byte behind the last record": batch_of(record(0) + b"\0"),
    "a negative count": batch_of(record(0), count=-1, last_delta=0),
    "a negative count of nothing": batch_of(b"", count=-1, last_delta=0),
    "a record of no bytes": batch_of(b"\0"),
    "a record of negative length": batch_of(varint(-5) + bytes(9)),
    "a record that reaches past the end": batch_of(varint(40) + bytes(7)),
    "a record of 2 GiB": batch_of(varint((1 << 31) - 1) + bytes(7)),
    "a record length cut off": batch_of(b"\xff"),
    "an overlong record length": batch_of(OVERLONG_32 + bytes(9)),
    "a record length over 32 bits": batch_of(TOO_LARGE_32 + bytes(9)),
    "an overlong timestamp": batch_of(framed(b"\0" + OVERLONG_64 + b"\0\1\1\0")),
    "a timestamp over 64 bits": batch_of(framed(b"\0" + TOO_LARGE_64 + b"\0\1\1\0")),
    "a timestamp cut off by its record": batch_of(framed(b"\0" + b"\x80" * 5)),
    "an overlong offset": batch_of(framed(b"\0\0" + OVERLONG_32 + b"\1\1\0")),
    "an offset over 32 bits": batch_of(framed(b"\0\0" + TOO_LARGE_32 + b"\1\1\0")),
    "a negative offset": batch_of(record(-1)),
    "a repeated offset": batch_of(record(0) + record(0), count=2),
    "a falling offset": batch_of(record(1) + record(0), count=2),
    "an offset past the last delta": batch_of(record(0) + record(9), count=2),
    "a key length of -2": batch_of(record(key=varint(-2))),
    "a key past its record": batch_of(record(key=varint(9)) + bytes(20)),
    "a key of 2 GiB": batch_of(record(key=varint((1 << 31) - 1))),
    "a value length of -2": batch_of(record(value=varint(-2))),
    "a value past its record": batch_of(record(value=varint(9)) + bytes(20)),
    "no header count": batch_of(record(rest=b"")),
    "a negative header count": batch_of(record(rest=varint(-1))),
    "more headers than bytes": batch_of(record(rest=varint(3) + b"\0\1\0\1")),
    "2 billion headers": batch_of(record(rest=varint((1 << 31) - 1) + b"\0\1")),
    "a header without a name": batch_of(record(rest=varint(1) + b"\1\1")),
    "a header name past its record": batch_of(record(rest=varint(1) + b"\x08\1") + bytes(9)),
    "a header value past its record": batch_of(record(rest=varint(1) + b"\0\x08") + bytes(9)),
    "a header value length of -2": batch_of(record(rest=varint(1) + b"\0" + varint(-2))),
    "a header count too small": batch_of(record(rest=varint(1) + piece(b"a") * 4)),
    "bytes left in a record without headers": batch_of(record(rest=b"\0\0")),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("consecutive", [True, False])
def test_records_that_do_not_add_up_are_refused(name: str, consecutive: bool) -> None:
    data = MALFORMED[name]
    with pytest.raises(CorruptBatch):
        scan(data, consecutive=consecutive)
    with pytest.raises(CorruptBatch):
        decode_batch(read_header(data), data)
    with pytest.raises(oracle.Malformed):
        oracle.decode(data)


def test_the_error_says_which_record_and_why() -> None:
    with pytest.raises(CorruptBatch, match="record 3 of 3: there are fewer records than"):
        scan(MALFORMED["fewer records than counted"])
    with pytest.raises(CorruptBatch, match="record 2 of 2: its offset delta is out of order"):
        scan(MALFORMED["a repeated offset"])


def test_a_timestamp_that_leaves_64_bits_is_refused() -> None:
    late = oracle.PlainRecord(b"k", b"v", [], (1 << 62), 1)
    data = oracle.encode([late._replace(timestamp=0, offset=0), late])
    data = with_field(data, 27, ">q", (1 << 63) - 1)
    with pytest.raises(CorruptBatch, match="timestamp"):
        scan(data)
    with pytest.raises(CorruptBatch, match="timestamp"):
        decode_batch(read_header(data), data)


def test_the_harmless_oddities_of_other_encoders_pass() -> None:
    padded = batch_of(record(key=b"\x81\x00", rest=b"\x80\x00"))  # varints longer than they need be
    assert scan(padded).null_keys
    attributes = bytearray(batch_of(record()))
    attributes[62] = 0x7F  # record attributes are nobody's yet
    assert scan(bytes(attributes)).null_keys


FAULTY = st.builds(
    Record,
    value=st.just(b"v"),
    key=st.none() | st.just(b"k"),
    timestamp=st.integers(-1, 2000).map(TimestampMs),
)


@given(
    st.lists(FAULTY, min_size=1, max_size=250),
    st.sampled_from(Compression),
    st.booleans(),
    st.integers(-10, 2000),
    st.integers(-10, 2000),
)
def test_records_at_fault_as_a_plain_loop_finds_them(
    wanted: list[Record], codec: Compression, keyless: bool, earliest: int, latest: int
) -> None:
    data = encode_batch(wanted, now_ms=1000, compression=codec)
    header = read_header(data)
    expected = [
        at
        for at, one in enumerate(decode_batch(header, data))
        if (keyless and one.key is None)
        or (one.timestamp != -1 and not earliest <= one.timestamp <= latest)
    ]
    found = find_faults(header, data, 1 << 20, keyless=keyless, earliest=earliest, latest=latest)
    assert found == expected[:100]
