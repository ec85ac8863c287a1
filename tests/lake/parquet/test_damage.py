"""Wrong bytes in a cold file are found, named, and never served."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from stratamq.lake.parquet.blocks import BatchOrigin, with_crc
from stratamq.lake.parquet.reading import ColdFile
from stratamq.lake.parquet.sources import BytesSource
from stratamq.lake.parquet.writing import FileLayout, FileWriter
from stratamq.model.errors import CorruptRecord, StrataError, UnsupportedFormat
from stratamq.wire.kafka.records import (
    BatchHeader,
    Compression,
    encode_batch,
    iter_batches,
    read_header,
)
from tests.lake.parquet.histories import NAME, body_of, opened, written
from tests.wire.samples import some_records

EVERYTHING = 1 << 62


def batches_of(count: int) -> list[bytes]:
    codecs = list(Compression)
    return [
        encode_batch(some_records(8), now_ms=1, base_offset=8 * i, compression=codecs[i % 5])
        for i in range(count)
    ]


BATCHES = batches_of(12)
DATA, SUMMARY = written(BATCHES, 1200)


def test_the_file_of_these_tests_has_several_row_groups() -> None:
    assert len(opened(DATA).places) > 3


@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_found_or_harmless(at: int, mask: int) -> None:
    damaged = bytearray(DATA)
    damaged[at] ^= mask
    only_true_answers(bytes(damaged))


@given(st.integers(0, len(DATA) - 1), st.binary(max_size=300))
def test_a_stretch_of_other_bytes_is_found_or_harmless(at: int, other: bytes) -> None:
    only_true_answers((DATA[:at] + other + DATA[at + len(other) :])[: len(DATA)])


@given(st.integers(0, len(DATA) - 1))
def test_a_file_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(StrataError):
        ColdFile(BytesSource(DATA[:size]), NAME, SUMMARY.footer)


def only_true_answers(data: bytes) -> None:
    """Every batch that is served is one that was stored; what is not served is named."""
    try:
        file = ColdFile(BytesSource(data), NAME, SUMMARY.footer)
    except StrataError:
        return
    offset = 0
    while offset < 96:
        try:
            answer = file.read(offset, 1, EVERYTHING)
        except CorruptRecord as error:
            offset = max(offset + 1, error.next_offset)
            continue
        assert answer
        header = read_header(answer)
        original = BATCHES[header.base_offset // 8]
        assert body_of(answer) == body_of(original)
        offset = header.next_offset


@given(st.integers(1, SUMMARY.footer.size), st.integers(1, 255))
def test_a_footer_is_held_to_its_checksum(from_end: int, mask: int) -> None:
    damaged = bytearray(DATA)
    damaged[-from_end] ^= mask
    with pytest.raises(CorruptRecord):
        ColdFile(BytesSource(bytes(damaged)), NAME, SUMMARY.footer)


def test_the_summary_tells_the_checksums() -> None:
    assert crc32c(DATA) == SUMMARY.crc
    assert crc32c(DATA[-SUMMARY.footer.size :]) == SUMMARY.footer.crc
    file = ColdFile(BytesSource(DATA), NAME, SUMMARY.footer)
    assert file.read(0, 1, EVERYTHING)


class Forgetful(FileWriter):
    """Notes wrong checksums of batches: as if rows had changed on their way into the file."""

    def _add_rows(self, header: BatchHeader, data: memoryview) -> tuple[bytes, BatchOrigin]:
        head, kind = super()._add_rows(header, data)
        return with_crc(head, header.crc ^ 1), kind


def test_rows_are_held_to_the_checksum_of_their_batch() -> None:
    sink = io.BytesIO()
    writer = Forgetful(sink, FileLayout(partition=0))
    writer.add(BATCHES[0])
    footer = writer.close().footer
    with pytest.raises(CorruptRecord, match="checksum of their batch"):
        ColdFile(BytesSource(sink.getvalue()), NAME, footer).read(0, 1, EVERYTHING)


def test_damage_further_on_ends_the_answer_before_it() -> None:
    file = opened(DATA)
    place = file.places[2]
    damaged = bytearray(DATA)
    damaged[place.position + 30] ^= 1
    file = ColdFile(BytesSource(bytes(damaged)), NAME, SUMMARY.footer)
    answer = [header for header, _ in iter_batches(file.read(0, EVERYTHING, EVERYTHING))]
    assert answer[-1].last_offset == place.base_offset - 1
    with pytest.raises(CorruptRecord) as caught:
        file.read(place.base_offset, 1, EVERYTHING)
    assert caught.value.next_offset == place.last_offset + 1
    assert file.read(place.last_offset + 1, 1, EVERYTHING)


def test_another_parquet_file_is_refused_by_name() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"offset": [1]}), sink)
    with pytest.raises(UnsupportedFormat):
        opened(sink.getvalue())


class Failing(BytesSource):
    """A store that is down from some read on."""

    reads_left = 2

    def read_at(self, position: int, size: int) -> bytes:
        if self.reads_left <= 0:
            raise ConnectionError("the store is down")
        self.reads_left -= 1
        return super().read_at(position, size)


def test_what_the_source_says_reaches_the_caller_as_it_is() -> None:
    source = Failing(DATA)
    file = ColdFile(source, NAME, SUMMARY.footer)
    with pytest.raises(ConnectionError):
        file.read(0, EVERYTHING, EVERYTHING)
    source.reads_left = 100
    assert file.read(0, 1, EVERYTHING)


class Counting(BytesSource):
    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[tuple[int, int]] = []

    def read_at(self, position: int, size: int) -> bytes:
        self.reads.append((position, size))
        return super().read_at(position, size)


def test_a_read_stays_within_its_row_group_and_reads_it_once() -> None:
    source = Counting(DATA)
    file = ColdFile(source, NAME, SUMMARY.footer)
    assert len(source.reads) == 1
    source.reads.clear()
    number = file.number(50)
    file.read(50, 1, EVERYTHING)
    place, span = file.places[number], file.span(number)
    assert place.base_offset <= 50 <= place.last_offset
    index = len(DATA) - SUMMARY.footer.size - SUMMARY.footer.index_size
    assert {at for at, _ in source.reads if at < span.position} == set()
    outside = [(at, size) for at, size in source.reads if at >= span.position + span.size]
    assert outside == [(index, SUMMARY.footer.index_size)]
    source.reads.clear()
    file.read(50, 1, EVERYTHING)
    assert source.reads == []
    assert file.number(96) == len(file.places)
