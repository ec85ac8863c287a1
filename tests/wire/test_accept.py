"""The way in through one kernel call says what the careful path says, of good bytes and of bad."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from stratamq.model.errors import BatchTooLarge, InvalidInput
from stratamq.model.record import Record
from stratamq.model.types import LeaderEpoch, Offset
from stratamq.wire.kafka.records import (
    BatchHeader,
    BatchScan,
    Compression,
    _kernel,
    accept_batch,
    check_batch,
    encode_batch,
    place_batch,
    read_header,
    scan_batch,
)
from stratamq.wire.kafka.records.compression import EXPANSION_MAX
from tests.wire.samples import records

ROOM = 1 << 20


def carefully(data: bytes) -> tuple[BatchHeader, BatchScan]:
    header = check_batch(data, ROOM)
    indexed = not header.is_control
    return header, scan_batch(
        header, data, keys=indexed, tags=indexed, decompressed_max=ROOM, consecutive=True
    )


def outcome(data: bytes, judge: object) -> object:
    try:
        return judge(data)  # type: ignore[operator]
    except InvalidInput as error:
        return type(error), str(error)


def quickly(data: bytes) -> tuple[BatchHeader, BatchScan]:
    header, scan, _ = accept_batch(data, ROOM, keys=True, tags=True, decompressed_max=ROOM)
    return header, scan


@given(
    st.lists(records, min_size=1, max_size=8),
    st.sampled_from(Compression),
    st.booleans(),
)
def test_both_ways_agree_on_whole_batches(
    wanted: list[Record], compression: Compression, control: bool
) -> None:
    data = encode_batch(wanted, now_ms=5, compression=compression, control=control)
    assert quickly(data) == carefully(data)
    assert isinstance(quickly(data)[0], BatchHeader)
    assert isinstance(quickly(data)[1], BatchScan)


@given(st.data(), st.sampled_from(Compression))
def test_both_ways_agree_on_damaged_batches(data: st.DataObject, compression: Compression) -> None:
    wanted = [Record(b"value", key=b"k", tags=(b"t",))] * 3
    batch = bytearray(encode_batch(wanted, now_ms=5, compression=compression))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):  # so that what lies below the CRC is reached as well
        batch[17:21] = _crc(batch)
    whole = bytes(batch[: data.draw(st.integers(0, len(batch) + 1))])
    assert outcome(whole, quickly) == outcome(whole, carefully)


def _crc(batch: bytearray) -> bytes:

    return crc32c(bytes(batch[21:])).to_bytes(4, "big")


def test_an_ordinary_batch_needs_the_kernel_alone() -> None:
    data = encode_batch([Record(b"v")], now_ms=5)
    assert _kernel.accept_plain(data, ROOM, True, True) == carefully(data)
    assert _kernel.accept_plain(data[:-1], ROOM, True, True) is None


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_a_compressed_batch_needs_two_calls(compression: Compression) -> None:
    data = encode_batch([Record(b"v" * 50, key=b"k")], now_ms=5, compression=compression)
    assert _kernel.accept_packed(data, ROOM) == read_header(data)
    assert _kernel.accept_packed(data[:-1], ROOM) is None
    assert _kernel.accept_packed(data, len(data) - 1) is None
    assert _kernel.accept_packed(data[:-1] + b"\xff", ROOM) is None, "its CRC"
    assert _kernel.accept_packed(encode_batch([Record(b"v")], now_ms=5), ROOM) is None


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_nobody_has(codec: int) -> None:
    batch = bytearray(encode_batch([Record(b"v")], now_ms=5))
    batch[22] |= codec
    batch[17:21] = _crc(batch)
    assert _kernel.accept_packed(bytes(batch), ROOM) is None
    assert outcome(bytes(batch), quickly) == outcome(bytes(batch), carefully)


@pytest.mark.parametrize("compression", Compression)
def test_more_records_than_can_be_are_not_looked_for(compression: Compression) -> None:
    batch = bytearray(encode_batch([Record(b"v")], now_ms=5, compression=compression))
    most = (len(batch) - 61) * EXPANSION_MAX[compression] // 7
    for count in (most, most + 1):
        batch[57:61] = count.to_bytes(4, "big")
        batch[23:27] = (count - 1).to_bytes(4, "big")
        batch[17:21] = _crc(batch)
        told = outcome(bytes(batch), quickly)
        assert told == outcome(bytes(batch), carefully)
        assert ("cannot lie in" in str(told)) is (count > most)


def test_the_nodes_time_is_the_time_of_all_records() -> None:
    data = encode_batch([Record(b"v", timestamp=3)], now_ms=5)
    header = read_header(data)
    _, (stamped,) = place_batch(header, data, Offset(0), LeaderEpoch(0), append_time_ms=77)
    assert quickly(bytes(stamped))[1].max_timestamp == 77


def test_a_batch_over_the_limit_is_refused() -> None:
    data = encode_batch([Record(b"v")], now_ms=5)
    with pytest.raises(BatchTooLarge):
        accept_batch(data, len(data) - 1, keys=True, tags=True, decompressed_max=ROOM)


def test_a_header_of_another_batch_is_a_bug_of_the_caller() -> None:
    data = encode_batch([Record(b"v")], now_ms=5)
    with pytest.raises(AssertionError):
        _kernel.place(read_header(data), data[:-1], 0, 0)
    with pytest.raises(TypeError):
        _kernel.place((1, 2), data, 0, 0)  # type: ignore[arg-type]
