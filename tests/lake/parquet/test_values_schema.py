"""Declared schemas: what is refused, what may follow what, and what a file keeps of them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from stratamq.lake.declared import check_follows, parse_schema
from stratamq.lake.parquet.values import value_columns
from stratamq.lake.parquet.writing import FileLayout, write_file
from stratamq.model.errors import InvalidConfig
from stratamq.model.record import Record
from stratamq.wire.kafka.records import encode_batch
from tests.duck import asked


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


ITSELF = {"type": "record", "name": "Tree", "fields": [field("left", ["null", "Tree"])]}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("", "need one"),
        ("{", "not JSON"),
        ('"long"', "must be a record"),
        (record(field("a", "number")), "unknown type 'number'"),
        (record(field("a", None)), "a: None is no type"),
        (record(field("a-b", "int")), "needs a name, not 'a-b'"),
        (record(field("a", "int"), field("a", "int")), "a is declared twice"),
        (record(field("a", ITSELF)), "Tree contains itself"),
        (record(field("a", {"type": "fixed", "name": "F"})), "needs a size"),
        (record(field("a", {"type": "enum", "name": "E"})), "list of symbols"),
        (record(field("a", {"type": "record", "name": "X"})), "list of fields"),
        (record(), "no field"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_schema_is_refused_by_name(schema: str, said: str) -> None:
    with pytest.raises(InvalidConfig, match=r"lake\.value\.schema") as caught:
        value_columns("avro", schema)
    assert said in str(caught.value)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"lake\.value\.format"):
        value_columns("xml", record(field("a", "int")))
    assert value_columns("none") is None


def test_fields_may_be_added_behind_the_others() -> None:
    inner = {"type": "record", "name": "I", "fields": [field("x", "int")]}
    wider = {"type": "record", "name": "I", "fields": [field("x", "int"), field("y", "int")]}
    older = parse_schema(record(field("a", "int"), field("i", inner)))
    newer = parse_schema(record(field("a", ["null", "int"]), field("i", wider), field("b", "long")))
    check_follows(older, newer)
    with pytest.raises(InvalidConfig, match=r"value\.i\.y is not where it was"):
        check_follows(newer, older)


@pytest.mark.parametrize(
    "newer",
    [
        record(field("a", "long"), field("b", "string")),
        record(field("b", "string"), field("a", "int")),
        record(field("b", "string")),
        record(field("a", {"type": "int", "logicalType": "date"}), field("b", "string")),
    ],
    ids=["type", "order", "removed", "logical"],
)
def test_fields_stay_as_they_are(newer: str) -> None:
    older = parse_schema(record(field("a", "int"), field("b", "string")))
    with pytest.raises(InvalidConfig):
        check_follows(older, parse_schema(newer))


def write(path: Path, schema: str, values: list[bytes | None], base: int) -> Any:
    batch = encode_batch([Record(value) for value in values], now_ms=1, base_offset=base)
    with path.open("wb") as sink:
        layout = FileLayout(partition=0, values=value_columns("json", schema))
        return write_file([batch], sink, layout)


def test_a_file_counts_what_did_not_parse_and_keeps_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "cold.parquet"
    schema = record(field("timestamp", "long"))
    values = [b'{"timestamp": 5}', b"oops", None, b'{"timestamp": "soon"}']
    summary = write(path, schema, values, 0)
    assert (summary.unparsed, summary.misfits) == (1, 1)
    table = pq.read_table(path)
    assert table.column("value").to_pylist() == values
    assert table.column("data").to_pylist() == [{"timestamp": 5}, None, None, {"timestamp": None}]
    notes = json.loads(pq.read_metadata(path).metadata[b"stratamq.values"])
    assert notes == {"format": "json", "schema": schema, "unparsed": 1, "misfits": 1}


def test_older_files_have_nulls_in_newer_columns(tmp_path: Path) -> None:
    older, newer = record(field("a", "int")), record(field("a", "int"), field("b", "string"))
    write(tmp_path / "0.parquet", older, [b'{"a": 1, "b": "early"}'], 0)
    write(tmp_path / "1.parquet", newer, [b'{"a": 2, "b": "late"}'], 1)
    query = f"""
        select data.a, data.b from read_parquet('{tmp_path}/*.parquet', union_by_name = true)
        order by "offset"
    """
    assert asked(query) == [(1, None), (2, "late")]


def test_typed_columns_have_statistics() -> None:
    sink = io.BytesIO()
    batch = encode_batch([Record(b'{"a": %d}' % n) for n in range(9)], now_ms=1)
    columns = value_columns("json", record(field("a", "int")))
    write_file([batch], sink, FileLayout(partition=0, values=columns))
    group = pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata.row_group(0)
    (chunk,) = [
        group.column(number)
        for number in range(group.num_columns)
        if group.column(number).path_in_schema == "data.a"
    ]
    assert (chunk.statistics.min, chunk.statistics.max) == (0, 8)
