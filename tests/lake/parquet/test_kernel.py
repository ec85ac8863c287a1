"""The kernel against its plain-Python twin, and against bytes that are no records."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.lake.parquet._columns import Columns, Rows
from stratamq.lake.parquet.arrays import rows_of, take_arrays
from stratamq.lake.parquet.schema import BATCH_COLUMNS
from stratamq.model.errors import CorruptBatch
from stratamq.wire.kafka.records import BatchHeader, Compression, read_header
from tests.lake.parquet.histories import Content, Spec, build, histories
from tests.lake.parquet.oracle import LOG_APPEND_TIME, columns_of
from tests.wire import oracle


def plain_batches(history: list[Spec]) -> list[bytes]:
    return build([spec._replace(codec=Compression.NONE, odd="") for spec in history])


def fill(columns: Columns, batch: bytes, header: BatchHeader | None = None) -> bool:
    header = header or read_header(batch)
    return columns.add(
        batch,
        61,
        len(batch),
        header.record_count,
        header.last_offset_delta,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.attributes & LOG_APPEND_TIME else None,
    )


@given(histories)
@settings(max_examples=60)
def test_columns_are_those_of_the_twin(history: list[Spec]) -> None:
    batches = plain_batches(history)
    columns = Columns()
    assert all(fill(columns, batch) for batch in batches)
    owns = [[content.timestamp for content in spec.contents] for spec in history]
    expected = columns_of([oracle.decode(batch) for batch in batches], owns)
    assert columns.rows == len(expected["offset"])
    arrays = take_arrays(columns)
    for array in arrays.values():
        array.validate(full=True)
    arrays["timestamp"] = arrays["timestamp"].cast(pa.int64())
    assert {name: array.to_pylist() for name, array in arrays.items()} == expected


@given(histories)
@settings(max_examples=60)
def test_records_are_those_of_the_twin(history: list[Spec]) -> None:
    batches = plain_batches(history)
    rows = rows_for(batches)
    first = 0
    for batch in batches:
        header = read_header(batch)
        bases = header.base_offset, header.base_timestamp
        assert rows.records(first, header.record_count, *bases, b"head") == b"head" + batch[61:]
        first += header.record_count


def rows_for(batches: list[bytes]) -> Rows:
    columns = Columns()
    for batch in batches:
        fill(columns, batch)
    return rows_of(pa.table(take_arrays(columns)).select(list(BATCH_COLUMNS)))


def test_columns_can_be_filled_again() -> None:
    (batch,) = plain_batches([some_spec()])
    columns = Columns()
    fill(columns, batch)
    once = {name: array.to_pylist() for name, array in take_arrays(columns).items()}
    assert columns.rows == 0
    fill(columns, batch)
    assert {name: array.to_pylist() for name, array in take_arrays(columns).items()} == once


def some_spec() -> Spec:
    contents = [Content(b"k", b"v" * 30, [(b"tag", b"t"), (b"n", None)], i, 0) for i in (5, 6, 4)]
    return Spec(contents, Compression.NONE, 0, 0, 0, (-1, -1, -1), 0, 0, "")


@given(st.data())
@settings(max_examples=60)
def test_bytes_that_are_no_records_are_refused_or_taken_never_worse(data: st.DataObject) -> None:
    (batch,) = plain_batches([some_spec()])
    damaged = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    stop = data.draw(st.integers(61, len(batch)))
    columns = Columns()
    try:
        fill(columns, bytes(damaged[:stop]), read_header(batch))
    except CorruptBatch:
        return
    for array in take_arrays(columns).values():
        array.validate(full=True)


@given(st.data())
@settings(max_examples=60)
def test_columns_that_do_not_fit_together_are_refused(data: st.DataObject) -> None:
    """What a damaged file could hold: places that lead elsewhere, buffers that end early."""
    columns = Columns()
    (batch,) = plain_batches([some_spec()])
    fill(columns, batch)
    lent, (count, headers, _), _ = columns.take()
    buffers: list[object] = [bytearray(buffer) for buffer in list(lent.values())[:17]]
    chosen = data.draw(st.integers(0, 16))
    buffer = buffers[chosen]
    assert isinstance(buffer, bytearray)
    if data.draw(st.booleans()) and buffer:
        buffer[data.draw(st.integers(0, len(buffer) - 1))] ^= data.draw(st.integers(1, 255))
    else:
        del buffer[data.draw(st.integers(0, len(buffer))) :]
    try:
        rows = Rows(count, headers, buffers)
        made = rows.records(0, count, 0, 5, b"")
    except CorruptBatch:
        return
    assert isinstance(made, bytes)


PLACES = {5: "key", 8: "value", 11: "headers", 12: "header names", 14: "header values"}


@pytest.mark.parametrize("part", PLACES, ids=PLACES.values())
@pytest.mark.parametrize("place", [-1, 1 << 20, (1 << 31) - 1], ids=["negative", "past", "far"])
def test_a_place_outside_its_bytes_is_refused(part: int, place: int) -> None:
    columns = Columns()
    fill(columns, plain_batches([some_spec()])[0])
    lent, (count, headers, _), _ = columns.take()
    for number in (0, 1, 3):
        buffers: list[object] = [bytearray(buffer) for buffer in list(lent.values())[:17]]
        damaged = buffers[part]
        assert isinstance(damaged, bytearray)
        damaged[4 * number : 4 * number + 4] = place.to_bytes(4, "little", signed=True)
        with pytest.raises(CorruptBatch):
            Rows(count, headers, buffers).records(0, count, 0, 5, b"")


def test_more_records_than_rows_are_refused() -> None:
    rows = rows_for(plain_batches([some_spec()]))
    for first, count in ((0, 4), (3, 1), (-1, 1), (0, -1), (1 << 62, 1 << 62)):
        with pytest.raises(CorruptBatch):
            rows.records(first, count, 0, 0, b"")
