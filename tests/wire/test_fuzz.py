"""The law for bytes from outside: parse, or raise an InvalidInput. Nothing else, no crash."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stratamq.model.errors import CorruptBatch, InvalidInput
from stratamq.model.types import LeaderEpoch, Offset
from stratamq.wire.kafka.records import (
    BatchHeader,
    Buffer,
    Compression,
    check_batch,
    check_crc,
    compress,
    decode_batch,
    decode_some,
    drop_records,
    encode_batch,
    find_batch,
    iter_batches,
    place_batch,
    read_header,
    scan_batch,
    walk,
)
from tests.wire import oracle
from tests.wire.samples import NOW, batch_of, from_plain, some_records, with_crc

LIMIT = 1 << 16

THOROUGH = settings(max_examples=500)

WITH_HEADER: list[Callable[[BatchHeader, Buffer], object]] = [
    lambda header, data: check_crc(data, header),
    lambda header, data: scan_batch(header, data, keys=True, tags=True, decompressed_max=LIMIT),
    lambda header, data: scan_batch(
        header, data, keys=False, tags=False, decompressed_max=LIMIT, consecutive=True
    ),
    lambda header, data: decode_batch(header, data, LIMIT),
    lambda header, data: decode_some(header, data, [0, 2, 3, 1 << 40], LIMIT),
    lambda header, data: drop_records(header, data, [0, 2, 3], LIMIT),
]

WITHOUT_HEADER: list[Callable[[Buffer], object]] = [
    lambda data: check_batch(bytes(data), LIMIT),
    lambda data: walk(data),
    lambda data: [walk(data, position) for position in range(0, len(data), 7)],
    lambda data: find_batch(data, 3),
    lambda data: list(iter_batches(data)),
]


def hold_to_the_law(data: Buffer) -> None:
    for parse in WITHOUT_HEADER:
        lawful(partial(parse, data))
    try:
        header = read_header(data)
    except InvalidInput:
        return
    for parse_with in WITH_HEADER:
        lawful(partial(parse_with, header, data))
    if header.size_bytes <= len(data):
        place_batch(header, data, Offset(1), LeaderEpoch(1), append_time_ms=5)


def lawful(parse: Callable[[], object]) -> None:
    with suppress(InvalidInput):
        parse()


batches = st.sampled_from(
    [encode_batch(some_records(5), now_ms=NOW, compression=codec) for codec in Compression]
)

edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from([0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255),
    ),
    max_size=6,
)


def edited(data: bytes, changes: list[tuple[float, int]]) -> bytes:
    result = bytearray(data)
    for place, value in changes:
        result[int(place * len(result))] = value
    return bytes(result)


@THOROUGH
@given(st.binary(max_size=400))
def test_noise(data: bytes) -> None:
    hold_to_the_law(data)
    hold_to_the_law(data[:16] + b"\2" + data[17:])


@THOROUGH
@given(batches, edits, st.booleans(), st.integers(0, 40))
def test_damaged_batches(
    batch: bytes, changes: list[tuple[float, int]], crc_right: bool, cut: int
) -> None:
    data = edited(batch, changes)
    hold_to_the_law(with_crc(data) if crc_right else data)
    hold_to_the_law(data[: len(data) - cut])
    hold_to_the_law(data + data)


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_cut_at_every_byte(codec: Compression) -> None:
    data = encode_batch(some_records(5), now_ms=NOW, compression=codec)
    for cut in range(len(data)):
        hold_to_the_law(data[:cut])
        with pytest.raises(InvalidInput):
            check_batch(data[:cut], LIMIT)
        if cut >= 61:
            with pytest.raises(CorruptBatch):
                decode_batch(read_header(data), data[:cut])


BODY = encode_batch(some_records(5), now_ms=NOW)[61:]


@pytest.mark.parametrize("codec", Compression)
def test_records_cut_at_every_byte_under_a_sound_header(codec: Compression) -> None:
    for cut in range(len(BODY)):
        data = batch_of(compress(codec, BODY[:cut]), count=5, attributes=codec)
        hold_to_the_law(data)
        with pytest.raises(CorruptBatch):
            decode_batch(read_header(data), data)


def test_every_byte_of_the_records_turned_every_way() -> None:
    """Under a right CRC, the kernel and the oracle see the same records or both see none."""
    for position in range(len(BODY)):
        for flip in (0x01, 0x02, 0x40, 0x80, 0xFF):
            damaged = bytearray(BODY)
            damaged[position] ^= flip
            agree_with_the_oracle(batch_of(bytes(damaged), count=5))


@THOROUGH
@given(edits, st.integers(0, 6), st.integers(0, 300))
@example([], 5, 300)
def test_kernel_and_oracle_agree(changes: list[tuple[float, int]], count: int, cut: int) -> None:
    agree_with_the_oracle(batch_of(edited(BODY, changes)[:cut], count, last_delta=4))


@THOROUGH
@given(st.binary(max_size=60), st.integers(0, 3))
def test_kernel_and_oracle_agree_on_noise(body: bytes, count: int) -> None:
    agree_with_the_oracle(batch_of(body, count, last_delta=200))


def agree_with_the_oracle(data: bytes) -> None:
    try:
        expected = [from_plain(record) for record in oracle.decode(data).records]
    except oracle.Malformed:
        expected = None
    header = read_header(data)
    try:
        assert decode_batch(header, data) == expected
        scan_batch(header, data, keys=True, tags=True, decompressed_max=LIMIT)
    except CorruptBatch:
        assert expected is None


# -- reads past the end --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cliff() -> Iterator[Callable[[bytes], memoryview]]:
    """Places bytes so that the next one lies in a page that cannot be read: a look is a crash."""
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0

    def place(data: bytes) -> memoryview:
        assert len(data) <= page
        area[page - len(data) : page] = data
        return memoryview(area)[page - len(data) : page]

    yield place
    assert libc.mprotect(ctypes.c_void_p(start + page), page, mmap.PROT_READ) == 0


def test_nothing_is_read_past_the_end(cliff: Callable[[bytes], memoryview]) -> None:
    whole = encode_batch(some_records(5), now_ms=NOW)
    for cut in range(len(whole) + 1):
        hold_to_the_law(cliff(whole[:cut]))
    for cut in range(len(BODY) + 1):
        hold_to_the_law(cliff(batch_of(BODY[:cut], count=5)))
        hold_to_the_law(cliff(batch_of(BODY[:cut] + b"\x80", count=5)))
    for position in range(len(BODY)):
        longer = bytearray(BODY)
        longer[position] |= 0x80  # a varint that goes on, at the end past the end
        hold_to_the_law(cliff(batch_of(bytes(longer), count=5)))


def test_nothing_is_read_past_a_record_that_is_too_short(
    cliff: Callable[[bytes], memoryview],
) -> None:
    """Cut inside but framed as if it were whole: every field in turn is the one that is missing."""
    record = oracle.PlainRecord(b"key", b"value", [(b"h", b"x"), (b"tag", b"t")], NOW + 99, 0)
    inner = oracle.encode_record(record, 0, NOW)[1:]
    assert len(oracle.varint(len(inner))) == 1
    for cut in range(len(inner) - 1):
        for end in (b"", b"\x80"):
            short = inner[:cut] + end
            data = batch_of(oracle.varint(len(short)) + short)
            hold_to_the_law(cliff(data))
            with pytest.raises(CorruptBatch):
                decode_batch(read_header(data), data)


@THOROUGH
@given(changes=edits, cut=st.integers(0, 300))
def test_nothing_is_read_past_the_end_of_damage(
    cliff: Callable[[bytes], memoryview], changes: list[tuple[float, int]], cut: int
) -> None:
    hold_to_the_law(cliff(batch_of(edited(BODY, changes)[:cut], count=5)))
