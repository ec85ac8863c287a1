"""The same file as a table: other readers of Parquet see the same rows."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings

from stratamq.lake.parquet.schema import arrow_schema
from stratamq.lake.parquet.writing import FileLayout, write_file
from stratamq.wire.kafka.records import encode_batch, read_header
from tests.duck import asked
from tests.lake.parquet.histories import Spec, build, histories, records_of, written
from tests.wire.samples import some_records


def messages(batches: list[bytes]) -> list[Any]:
    return [
        record
        for batch in batches
        if not read_header(batch).is_control
        for record in records_of(batch)
    ]


@given(histories)
@settings(max_examples=40)
def test_rows_are_the_messages(history: list[Spec]) -> None:
    batches = build(history)
    table = pq.read_table(io.BytesIO(written(batches)[0]))
    assert table.schema.equals(arrow_schema())
    expected = messages(batches)
    assert table.column("offset").to_pylist() == [record.offset for record in expected]
    assert table.column("key").to_pylist() == [record.key for record in expected]
    assert table.column("value").to_pylist() == [record.value for record in expected]
    assert table.column("tags").to_pylist() == [list(record.tags) for record in expected]
    assert set(table.column("partition").to_pylist()) <= {7}
    stamps = table.column("timestamp").cast(pa.int64()).to_pylist()
    assert stamps == [
        r.timestamp if 0 <= r.timestamp <= 253402300799999 else None for r in expected
    ]
    others = [
        [(h["name"], h["value"]) for h in headers if h["name"] != b"tag" or h["value"] is None]
        for headers in table.column("headers").to_pylist()
    ]
    assert others == [list(record.headers) for record in expected]


def large_file(path: Path) -> list[bytes]:
    batches = [
        encode_batch(some_records(50), now_ms=1, base_offset=50 * number) for number in range(40)
    ]
    with path.open("wb") as sink:
        write_file(batches, sink, FileLayout(partition=3, row_group_bytes=20_000))
    return batches


def test_pyarrow_and_duckdb_count_and_sum_alike(tmp_path: Path) -> None:
    path = tmp_path / "cold.parquet"
    expected = messages(large_file(path))
    assert checksum([(r.offset, r.key, r.value) for r in expected]) == checksum(
        asked(f'select "offset", key, value from \'{path}\' order by "offset"')
    )
    table = pq.read_table(path, columns=["offset", "key", "value"])
    rows = zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True)
    assert checksum(list(rows)) == checksum([(r.offset, r.key, r.value) for r in expected])
    query = f"select count(*), sum(len(headers)), sum(len(tags)), min(partition) from '{path}'"
    assert asked(query) == [
        (
            2000,
            sum(len(r.headers) + len(r.tags) for r in expected),
            sum(len(r.tags) for r in expected),
            3,
        )
    ]


def checksum(rows: list[Any]) -> tuple[int, str]:
    return len(rows), hashlib.sha256(repr([tuple(row) for row in rows]).encode()).hexdigest()


def test_readers_find_what_they_need_to_skip(tmp_path: Path) -> None:
    path = tmp_path / "cold.parquet"
    large_file(path)
    metadata = pq.ParquetFile(path).metadata
    assert metadata.num_row_groups > 3
    last = -1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
        assert chunks["offset"].statistics.min == last + 1
        last = chunks["offset"].statistics.max
        assert chunks["timestamp"].statistics.has_min_max
        assert chunks["key"].bloom_filter_length
        assert chunks["tags.list.element"].bloom_filter_length
        assert chunks["offset"].has_offset_index
        assert chunks["offset"].has_column_index
        assert chunks["value"].compression == "ZSTD"
        assert not chunks["value"].is_stats_set
        assert [sorting.column_index for sorting in group.sorting_columns] == [0]
    query = f"select count(*) from '{path}' where \"offset\" between 900 and 949"
    assert asked(query) == [(50,)]
