"""Values page by page: what Arrow would have read, only what is asked for, and nothing damaged."""

from __future__ import annotations

import io
import random
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.lake.parquet import reading as reading_module
from stratamq.lake.parquet._columns import Rows, read_thrift
from stratamq.lake.parquet.pages import Buffers, ParquetPage, ValuePages, index_places, pages_of
from stratamq.lake.parquet.reading import ColdFile
from stratamq.lake.parquet.sources import BytesSource
from stratamq.lake.parquet.writing import FileLayout, FileSummary, write_file
from stratamq.model.errors import CorruptBatch, CorruptRecord, StrataError
from stratamq.model.record import Record
from stratamq.wire.kafka.records import Compression, encode_batch, iter_batches, walk
from tests.lake.parquet.histories import NAME
from tests.waiting import every

EVERYTHING = 1 << 62


def batches(count: int, *, codec: Compression = Compression.NONE, seed: int = 3) -> list[bytes]:
    """Values from nothing to 60 KB, some of them null: pages of every kind."""
    rng = random.Random(seed)
    made, offset = [], 0
    for _ in range(count):
        records = [
            Record(None if rng.random() < 0.2 else rng.randbytes(rng.randrange(60_000)), b"k")
            for _ in range(rng.randint(1, 20))
        ]
        batch = encode_batch(records, now_ms=5, compression=codec)
        made.append(struct.pack(">q", offset) + batch[8:])
        offset += len(records)
    return made


def stored(made: list[bytes], row_group_bytes: int = 12 << 20) -> tuple[bytes, FileSummary]:
    sink = io.BytesIO()
    summary = write_file(made, sink, FileLayout(partition=0, row_group_bytes=row_group_bytes))
    return sink.getvalue(), summary


BATCHES = batches(60)
DATA, SUMMARY = stored(BATCHES)


class Counting(BytesSource):
    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.asked = 0

    def read_at(self, position: int, size: int) -> bytes:
        self.asked += size
        return super().read_at(position, size)


def pages_in(file: ColdFile) -> list[list[ParquetPage]]:
    return [file._pages(place) for place in file.places]


def test_there_are_many_pages_and_groups() -> None:
    found = pages_in(ColdFile(BytesSource(DATA), NAME, SUMMARY.footer))
    assert len(found) > 1
    assert all(len(pages) > 3 for pages in found[:-1])


@pytest.mark.parametrize("fetch_bytes", [1, 100_000, 1 << 20, 1 << 30])
def test_everything_comes_back_in_order(fetch_bytes: int) -> None:
    file = ColdFile(BytesSource(DATA), NAME, SUMMARY.footer)
    offset, found = 0, []
    while data := file.read(offset, fetch_bytes, EVERYTHING):
        found.append(data)
        offset = walk(data)[-1].last_offset + 1
        assert len(data) <= fetch_bytes or len(walk(data)) == 1
    assert b"".join(found) == b"".join(BATCHES)


def test_a_read_somewhere_asks_for_its_pages_alone() -> None:
    for number in every(random.Random(1).sample(range(len(BATCHES)), 10)):
        source = Counting(DATA)
        file = ColdFile(source, NAME, SUMMARY.footer)
        offset = walk(BATCHES[number])[0].base_offset
        if number:
            offset = walk(b"".join(BATCHES[: number + 1]))[-1].base_offset
        assert file.read(offset, 1, EVERYTHING) == BATCHES[number]
        assert source.asked < len(DATA) / 2


def test_values_that_arrow_reads_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    paged = ColdFile(BytesSource(DATA), NAME, SUMMARY.footer)
    monkeypatch.setattr(reading_module, "index_places", lambda *_: [None] * 99)
    plain = ColdFile(BytesSource(DATA), NAME, SUMMARY.footer)
    assert not any(pages_in(plain))
    want = b"".join(BATCHES)
    assert paged.read(0, 1 << 30, EVERYTHING) == plain.read(0, 1 << 30, EVERYTHING) == want


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4])
@pytest.mark.parametrize("fetch_bytes", [1, 300_000])
def test_packed_batches_come_back_unpacked(codec: Compression, fetch_bytes: int) -> None:
    plain = batches(20)
    data, summary = stored(batches(20, codec=codec))
    file = ColdFile(BytesSource(data), NAME, summary.footer)
    offset, found = 0, b""
    while some := file.read(offset, fetch_bytes, EVERYTHING):
        found += some
        offset = walk(some)[-1].last_offset + 1
        assert len(some) <= fetch_bytes or len(walk(some)) == 1
    assert found == b"".join(plain)


def test_threads_share_a_group_and_no_page_is_unpacked_twice() -> None:
    source = Counting(DATA)
    file = ColdFile(source, NAME, SUMMARY.footer)
    group = file.group(0)
    opened = source.asked
    begin = threading.Barrier(4)

    def read() -> bytes:
        begin.wait()
        group.unpack()
        return b"".join(group.read(0, 1 << 30, EVERYTHING).parts)

    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(read) for _ in range(4)]
        assert len({one.result() for one in found}) == 1
    assert source.asked - opened == sum(page.size for page in pages_in(file)[0])


def test_memory_is_used_again_when_a_group_has_gone() -> None:
    buffers = Buffers()
    file = ColdFile(BytesSource(DATA), NAME, SUMMARY.footer, buffers=buffers)
    group = file.group(0)
    before = group.size_bytes
    group.unpack()
    assert group.size_bytes > before + (8 << 20)
    packed = buffers._spare_bytes
    assert packed <= 6 << 20
    del group
    assert buffers._spare_bytes > packed + (8 << 20)
    again = file.group(0)
    again.unpack()
    assert buffers._spare_bytes <= packed
    found = b"".join(again.read(0, 1 << 30, EVERYTHING).parts)
    assert found == b"".join(BATCHES)[: len(found)]
    assert walk(found)[-1].last_offset == file.places[0].last_offset


def test_a_wrong_byte_in_a_page_costs_the_batches_that_lie_in_it() -> None:
    file = ColdFile(BytesSource(DATA), NAME, SUMMARY.footer)
    page = pages_in(file)[0][1]
    damaged = bytearray(DATA)
    damaged[page.position + page.size // 2] ^= 4
    file = ColdFile(BytesSource(bytes(damaged)), NAME, SUMMARY.footer)
    whole = {header.base_offset: bytes(batch) for header, batch in iter_batches(b"".join(BATCHES))}
    offset, lost = 0, []
    while offset <= SUMMARY.last_offset:
        try:
            data = file.read(offset, 1 << 20, EVERYTHING)
        except CorruptRecord as error:
            lost.append(offset)
            offset = error.next_offset
            continue
        for header, batch in every(iter_batches(data)):
            assert bytes(batch) == whole[header.base_offset]
            offset = header.next_offset
    assert 0 < len(lost) < len(BATCHES) / 4


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_page_is_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    """The kernel on its own: its loops see bytes that nothing has vouched for."""
    values = data.draw(st.lists(st.none() | st.binary(max_size=50), min_size=1, max_size=300))
    page, count = page_of(values)
    rows = rows_for(count)
    rows.add_values(page, 0, count)
    spoilt = bytearray(page)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(page) - 1))
        spoilt[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(page)))
    for bad in (bytes(spoilt), page[:cut]):
        rows = rows_for(count)
        try:
            rows.add_values(bad, 0, count)
        except CorruptBatch:
            with pytest.raises(CorruptBatch):
                rows.records(0, count, 0, 0, b"")
        else:
            rows.records(0, count, 0, 0, b"")


@given(st.lists(st.none() | st.binary(max_size=300), min_size=1, max_size=700))
@settings(max_examples=60, deadline=None)
def test_values_of_a_page_are_those_that_were_written(values: list[bytes | None]) -> None:
    page, count = page_of(values)
    rows = rows_for(count)
    rows.add_values(page, 0, count)
    body = rows.records(0, count, 0, 0, b"")
    at = 0
    for number, value in enumerate(values):
        expected = record(number, value)
        assert body[at:].startswith(expected)
        at += len(expected)
    assert at == len(body)


def record(number: int, value: bytes | None) -> bytes:
    sized = varint(-1) if value is None else varint(len(value)) + value
    content = b"\0" + varint(0) + varint(number) + varint(-1) + sized + varint(0)
    return varint(len(content)) + content


def varint(value: int) -> bytes:
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes(out) + bytes([left])


def rows_for(count: int) -> Rows:
    """Rows 0.. without keys and headers, whose values are still to come."""
    offsets = struct.pack(f"<{count}q", *range(count))
    zeros, none = bytes(8 * count), bytes(4 * (count + 1))
    nulls = bytes((count + 7) // 8)
    rows = Rows(
        count,
        0,
        [offsets, zeros, None, zeros, nulls, none, b"", nulls, None, None, None, none] + [None] * 5,
    )
    rows.await_values()
    return rows


def page_of(values: list[bytes | None]) -> tuple[bytes, int]:
    """As pyarrow writes it, not compressed."""
    sink = io.BytesIO()
    table = pa.table({"value": pa.array(values, pa.binary())})
    encoding = {"value": "DELTA_LENGTH_BYTE_ARRAY"}
    pq.write_table(table, sink, compression="none", use_dictionary=False, column_encoding=encoding)
    data = sink.getvalue()
    header, at = read_thrift(data, 4)
    return data[at : at + header[3]], header[5][1]


def test_other_encodings_are_left_to_arrow() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"value": [b"a", b"b"]}), sink, compression="zstd")
    data = sink.getvalue()
    size = int.from_bytes(data[-8:-4], "little")
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    assert index_places(data[-size - 8 :], metadata) == [None]


@given(st.binary(max_size=200))
def test_thrift_that_is_none_is_refused(data: bytes) -> None:
    try:
        _, at = read_thrift(data)
        assert at <= len(data)
    except CorruptBatch:
        pass
    with pytest.raises(CorruptBatch):
        read_thrift(data, len(data) + 1)


@given(st.integers(0, SUMMARY.footer.size - 9), st.integers(1, 255))
@settings(max_examples=50)
def test_any_index_is_read_or_refused(at: int, mask: int) -> None:
    footer = bytearray(DATA[-SUMMARY.footer.size :])
    footer[at] ^= mask
    try:
        found, _ = read_thrift(footer)
        assert isinstance(found, dict)
    except CorruptBatch:
        pass


@pytest.mark.parametrize(
    "index",
    [b"", b"\0", b"\x19\x0c\0", b"\x15\x02\0", b"\x19\x1c\x16\x08\x15\x08\x16\x04\0\0"],
    ids=["nothing", "no list", "no page", "a number", "a page that begins too late"],
)
def test_an_impossible_index_is_refused(index: bytes) -> None:
    with pytest.raises(CorruptBatch):
        pages_of(index, 10)


def test_a_page_that_fails_is_tried_by_the_next_who_wants_it() -> None:
    file = ColdFile(BytesSource(DATA), NAME, SUMMARY.footer)

    class Down(BytesSource):
        down = True

        def read_at(self, position: int, size: int) -> bytes:
            if self.down:
                raise StrataError("down")
            return super().read_at(position, size)

    source, pages = Down(DATA), pages_in(file)[0]
    values = ValuePages(source, pages, rows_for(pages[-1].stop_row), Buffers())
    with pytest.raises(StrataError):
        values.ensure_all()
    source.down = False
    values.ensure_all()
    assert values.size_bytes > 8 << 20
