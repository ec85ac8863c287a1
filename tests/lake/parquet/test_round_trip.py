"""What goes into a cold file comes out of it, whatever a log may hold."""

from __future__ import annotations

import gc
import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.lake.parquet.blocks import BatchOrigin
from stratamq.lake.parquet.writing import FileLayout, FileWriter, read_chunks, write_file
from stratamq.model.errors import BatchTooLarge, CorruptBatch
from stratamq.model.record import Record
from stratamq.model.transaction import AbortedTxn
from stratamq.model.types import Offset
from stratamq.wire.kafka.records import (
    BatchHeader,
    Compression,
    ControlType,
    encode_batch,
    encode_control,
    iter_batches,
    read_header,
)
from stratamq.wire.kafka.records.control import read_mark
from stratamq.wire.kafka.records.rewrite import drop_records, empty_batch
from tests.lake.parquet.histories import (
    Spec,
    assemble,
    body_of,
    build,
    histories,
    meaning,
    opened,
    records_of,
    written,
)
from tests.wire.samples import some_records

EVERYTHING = 1 << 62
group_sizes = st.sampled_from([1, 300, 1 << 20])


def batches_in(data: bytes) -> list[bytes]:
    return [bytes(batch) for _, batch in iter_batches(data)]


@given(histories, group_sizes)
@settings(max_examples=50)
def test_batches_come_back_with_all_they_had(history: list[Spec], group_bytes: int) -> None:
    batches = build(history)
    file = opened(written(batches, group_bytes)[0])
    back = batches_in(file.read(0, EVERYTHING, EVERYTHING))
    assert [meaning(batch) for batch in back] == [meaning(batch) for batch in batches]


@given(histories)
@settings(max_examples=50)
def test_what_was_not_compressed_comes_back_byte_for_byte(history: list[Spec]) -> None:
    batches = build([spec._replace(codec=Compression.NONE) for spec in history])
    file = opened(written(batches)[0])
    assert batches_in(file.read(0, EVERYTHING, EVERYTHING)) == batches


@given(histories)
@settings(max_examples=50)
def test_the_codec_comes_back_when_asked_for(history: list[Spec]) -> None:
    batches = build(history)
    file = opened(written(batches)[0], recompressed=True)
    back = batches_in(file.read(0, EVERYTHING, EVERYTHING))
    codecs = [read_header(batch).attributes for batch in batches]
    assert [read_header(batch).attributes for batch in back] == codecs
    assert [meaning(batch) for batch in back] == [meaning(batch) for batch in batches]


@given(histories, group_sizes, st.data())
@settings(max_examples=50)
def test_a_read_keeps_the_promises_of_a_shard_store(
    history: list[Spec], group_bytes: int, data: st.DataObject
) -> None:
    batches = build(history)
    file = opened(written(batches, group_bytes)[0])
    whole = batches_in(file.read(0, EVERYTHING, EVERYTHING))
    last = read_header(batches[-1]).next_offset if batches else 0
    for _ in range(4):
        offset = data.draw(st.integers(0, last + 1))
        end = data.draw(st.integers(0, last + 1) | st.just(EVERYTHING))
        max_bytes = data.draw(st.integers(0, 2000))
        assert batches_in(file.read(offset, max_bytes, end)) == expected(
            whole, offset, max_bytes, end
        )


def expected(batches: list[bytes], offset: int, max_bytes: int, end: int) -> list[bytes]:
    """The contract of ShardStore.read, word by word."""
    found: list[bytes] = []
    for batch in batches:
        header = read_header(batch)
        if header.last_offset < offset:
            continue
        if header.last_offset >= end:
            break
        if found and sum(map(len, found)) + len(batch) > max_bytes:
            break
        found.append(batch)
    return found


@given(histories, group_sizes)
@settings(max_examples=50)
def test_headers_are_read_without_rows(history: list[Spec], group_bytes: int) -> None:
    batches = build(history)
    entries = list(opened(written(batches, group_bytes)[0]).entries())
    assert [facts(entry.header) for entry in entries] == [
        facts(read_header(batch)) for batch in batches
    ]
    for entry, batch in zip(entries, batches, strict=True):
        if entry.kind is BatchOrigin.KEPT:
            assert bytes(entry.kept) == batch


def facts(header: BatchHeader) -> tuple[int, ...]:
    return header[:4] + header[5:]


@given(histories)
@settings(max_examples=50)
def test_the_summary_is_true(history: list[Spec]) -> None:
    batches = build(history)
    data, summary = written(batches)
    headers = [read_header(batch) for batch in batches]
    assert summary.size_bytes == len(data)
    assert summary.batches == len(batches)
    assert summary.rows == sum(h.record_count for h in headers if not h.is_control)
    assert summary.base_offset == (headers[0].base_offset if headers else -1)
    assert summary.last_offset == (headers[-1].last_offset if headers else -1)
    assert summary.max_timestamp == max([-1, *(h.max_timestamp for h in headers)])
    messages = [b for b, h in zip(batches, headers, strict=True) if not h.is_control]
    stamps = [record.timestamp for batch in messages for record in records_of(batch)]
    dates = [stamp for stamp in stamps if 0 <= stamp <= 253402300799999]
    assert summary.min_timestamp == min(dates, default=-1)


@given(histories)
@settings(max_examples=50)
def test_the_same_batches_make_the_same_file(history: list[Spec]) -> None:
    """A conversion that was cut off and is repeated gives what the first would have given."""
    batches = build(history)
    assert written(batches) == written(batches)


def test_compacted_batches_keep_their_gaps_and_empty_ones_their_place() -> None:
    batch = encode_batch(some_records(6), now_ms=1, base_offset=10, compression=Compression.LZ4)
    header = read_header(batch)
    thinned = drop_records(header, batch, [10, 12, 15])
    assert thinned is not None
    second = encode_batch(some_records(2), now_ms=1, base_offset=16, producer_id=4)
    empty = empty_batch(read_header(second))
    file = opened(written([thinned, empty])[0])
    back = batches_in(file.read(0, EVERYTHING, EVERYTHING))
    assert meaning(back[0]) == meaning(thinned)
    assert back[1] == empty
    assert [entry.kind for entry in file.entries()] == [BatchOrigin.ROWS, BatchOrigin.ROWS]


def test_marks_come_back_and_are_no_rows() -> None:
    data = encode_batch(
        some_records(3), now_ms=1, producer_id=9, producer_epoch=2, transactional=True
    )
    mark = encode_control(
        ControlType.ABORT,
        producer_id=9,
        producer_epoch=2,
        coordinator_epoch=11,
        now_ms=3,
        base_offset=3,
    )
    cold, summary = written([data, mark])
    file = opened(cold)
    assert summary.rows == 3
    assert batches_in(file.read(3, EVERYTHING, EVERYTHING)) == [mark]
    kept = next(file.entries(3))
    assert read_mark(kept.header, kept.kept) == (ControlType.ABORT, 11)


def test_rolled_back_rows_are_marked_in_the_table() -> None:
    batches = [
        encode_batch(
            some_records(2), now_ms=1, base_offset=base, producer_id=pid, transactional=True
        )
        for base, pid in ((0, 1), (2, 2), (4, 1), (6, 1))
    ]
    plain = encode_batch(some_records(1), now_ms=1, base_offset=8, producer_id=1)
    sink = io.BytesIO()
    layout = FileLayout(partition=0, aborted=[AbortedTxn(1, Offset(0), Offset(5))])
    write_file([b"".join(batches), plain], sink, layout)
    table = pq.read_table(io.BytesIO(sink.getvalue()))
    flags = [True, True, False, False, True, True, False, False, False]
    assert table.column("aborted").to_pylist() == flags


def test_a_log_file_is_cut_between_batches(tmp_path: Path) -> None:
    batches = [
        encode_batch(some_records(9), now_ms=1, base_offset=9 * number) for number in range(20)
    ]
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(batches))
    with path.open("rb") as file:
        chunks = [bytes(chunk) for chunk in read_chunks(file, 700)]
    assert b"".join(chunks) == b"".join(batches)
    assert len(chunks) > 5
    assert all(batches_in(chunk) for chunk in chunks)


def test_a_log_file_that_ends_within_a_batch_is_refused(tmp_path: Path) -> None:
    batch = encode_batch(some_records(9), now_ms=1)
    with pytest.raises(CorruptBatch):
        list(read_chunks(io.BytesIO(batch + batch[:-1]), 100))


@pytest.mark.parametrize("at", [20, 61, -1], ids=["crc", "first record", "last byte"])
def test_a_damaged_batch_is_not_converted(at: int) -> None:
    damaged = bytearray(encode_batch(some_records(3), now_ms=1))
    damaged[at] ^= 1
    with pytest.raises(CorruptBatch):
        written([bytes(damaged)])


def test_a_conversion_that_failed_leaves_the_sink_alone(tmp_path: Path) -> None:
    """Also when its writer is collected, which is when pyarrow would write a footer."""
    good = encode_batch(some_records(3), now_ms=1)
    path = tmp_path / "cold.parquet"
    sink = io.BytesIO()
    with pytest.raises(CorruptBatch):
        write_file([good, good], sink, FileLayout(partition=0, row_group_bytes=1))
    gc.collect()
    assert not sink.getvalue().endswith(b"PAR1")
    with path.open("wb") as file, pytest.raises(CorruptBatch):
        write_file([good, good], file, FileLayout(partition=0))
    gc.collect()
    assert b"stratamq" not in path.read_bytes()


def test_a_batch_that_unpacks_to_too_much_is_not_converted() -> None:
    bomb = encode_batch([Record(bytes(100_000))], now_ms=1, compression=Compression.ZSTD)
    assert len(bomb) < 1000
    layout = FileLayout(partition=0, decompressed_max=50_000)
    with pytest.raises(BatchTooLarge):
        write_file([bomb], io.BytesIO(), layout)


def test_memory_holds_one_row_group() -> None:
    """What is written leaves before more is taken: the sink has grown by then."""
    sink = io.BytesIO()
    writer = FileWriter(sink, FileLayout(partition=0, row_group_bytes=50_000))
    grown = [sink.tell()]
    for number in range(30):
        writer.add(encode_batch([Record(bytes(10_000))], now_ms=1, base_offset=number))
        grown.append(sink.tell())
    assert len(set(grown)) == 1 + 6
    assert writer.close().row_groups == 6


def test_batches_out_of_order_are_not_converted() -> None:
    batch = encode_batch(some_records(3), now_ms=1, base_offset=5)
    with pytest.raises(CorruptBatch):
        written([batch, batch])


def test_records_that_columns_cannot_keep_are_kept_whole() -> None:
    batch = encode_batch(some_records(3), now_ms=1)
    body = bytearray(body_of(batch))
    body[1] = 1  # a record's attributes: unused, but somebody's bytes
    odd = assemble(0, 0, tuple(read_header(batch)[5:]), bytes(body))
    file = opened(written([odd])[0])
    assert file.read(0, EVERYTHING, EVERYTHING) == odd
    assert next(file.entries()).kind is BatchOrigin.ROWS_KEPT
