"""Avro values as columns, against fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratamq.lake.parquet.values import value_columns

LEAVES = [
    {"name": "id", "type": "long"},
    {"name": "small", "type": "int"},
    {"name": "ok", "type": "boolean"},
    {"name": "x", "type": "double"},
    {"name": "y", "type": "float"},
    {"name": "s", "type": "string"},
    {"name": "b", "type": "bytes"},
    {"name": "maybe", "type": ["null", "string"]},
    {"name": "perhaps", "type": ["long", "null"]},
    {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
]
INNER = {"type": "record", "name": "Inner", "fields": LEAVES}
HIDDEN = [
    {"name": "list", "type": {"type": "array", "items": ["null", "string", "double"]}},
    {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
    {"name": "either", "type": ["string", "int", "null"]},
    {"name": "nothing", "type": "null"},
]
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Outer",
    "fields": [
        {"name": "inner", "type": INNER},
        *HIDDEN,
        {"name": "again", "type": ["null", "Inner"]},
        {"name": "records", "type": {"type": "array", "items": "Inner"}},
        {"name": "last", "type": "long"},
    ],
}
PARSED = fastavro.parse_schema(SCHEMA)
COLUMNS = value_columns("avro", json.dumps(SCHEMA))

longs = st.integers(-(2**63), 2**63 - 1)
inner = st.fixed_dictionaries(
    {
        "id": longs,
        "small": st.integers(-(2**31), 2**31 - 1),
        "ok": st.booleans(),
        "x": st.floats(allow_nan=False),
        "y": st.floats(width=32, allow_nan=False),
        "s": st.text(max_size=9),
        "b": st.binary(max_size=9),
        "maybe": st.none() | st.text(max_size=9),
        "perhaps": st.none() | longs,
        "color": st.sampled_from(["RED", "BLUE"]),
        "hash": st.binary(min_size=3, max_size=3),
    }
)
outer = st.fixed_dictionaries(
    {
        "inner": inner,
        "list": st.lists(st.none() | st.text(max_size=4) | st.floats(0, 1), max_size=3),
        "map": st.dictionaries(
            st.text(max_size=3), st.lists(st.integers(0, 9), max_size=3), max_size=2
        ),
        "either": st.text(max_size=3) | st.integers(0, 9) | st.none(),
        "nothing": st.none(),
        "again": st.none() | inner,
        "records": st.lists(inner, max_size=2),
        "last": longs,
    }
)


def encoded(document: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, PARSED, document)
    return sink.getvalue()


def parsed(values: list[bytes | None], columns: Any = COLUMNS) -> tuple[list[Any], int, int]:
    found = columns.parse(pa.array(values, pa.binary()))
    found.column.validate(full=True)
    return found.column.to_pylist(), found.unparsed, found.misfits


def shown(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in ("inner", "again", "last")}


@given(st.lists(st.none() | outer, max_size=4))
def test_values_are_those_of_fastavro(documents: list[dict[str, Any] | None]) -> None:
    values = [None if document is None else encoded(document) for document in documents]
    expected = [None if document is None else shown(document) for document in documents]
    assert parsed(values) == (expected, 0, 0)


@given(outer, st.data())
def test_other_bytes_are_unparsed_or_what_fastavro_makes_of_them(
    document: dict[str, Any], data: st.DataObject
) -> None:
    value = bytearray(encoded(document))
    value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    value = value[: data.draw(st.integers(0, len(value)))]
    (row,), unparsed, misfits = parsed([bytes(value)])
    assert (row is None) == bool(unparsed)
    if row is None or misfits:
        return
    source = io.BytesIO(bytes(value))
    again: Any = fastavro.schemaless_reader(source, PARSED, None)
    assert source.read() == b""
    assert repr(shown(again)) == repr(row)


def test_bytes_behind_the_record_or_missing_from_it_are_unparsed() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    columns = value_columns("avro", json.dumps(schema))
    values = [b"\x02", b"\x02\x00", b"", b"\x80"]
    assert parsed(values, columns) == ([{"id": 1}, None, None, None], 3, 0)


def test_a_prefix_is_not_part_of_the_value() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    columns = value_columns("avro", json.dumps(schema), prefix_bytes=5)
    values = [b"\x00\x00\x00\x00\x07\x02", b"\x00\x00\x00\x00"]
    assert parsed(values, columns) == ([{"id": 1}, None], 1, 0)


def test_a_string_that_is_no_text_does_not_fit() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
    columns = value_columns("avro", json.dumps(schema))
    assert parsed([b"\x02\xff", b"\x02a"], columns) == ([{"s": None}, {"s": "a"}], 0, 1)


LONG = b"\xfe\xff\xff\xff\xff\xff\x1f"
"""A length of 2**47 - 1 bytes."""


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", LONG + b"abc"),
        ("bytes", LONG + b"abc"),
        ({"type": "fixed", "name": "F", "size": 1 << 40}, b"abc"),
        ({"type": "map", "values": "int"}, b"\x02" + LONG + b"abc"),
        ({"type": "array", "items": "string"}, b"\x01" + LONG + b"abc"),
    ],
    ids=["string", "bytes", "fixed", "map", "array"],
)
def test_a_length_past_the_end_is_unparsed(kind: Any, value: bytes) -> None:
    fields = [{"name": "f", "type": kind}, LEAVES[0]]
    columns = value_columns("avro", json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert parsed([value], columns) == ([None], 1, 0)


def test_a_count_of_items_without_bytes_costs_nothing() -> None:
    fields = [{"name": "n", "type": {"type": "array", "items": "null"}}, LEAVES[0]]
    columns = value_columns("avro", json.dumps({"type": "record", "name": "R", "fields": fields}))
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    assert parsed([huge * 10_000 + b"\x00\x02"], columns) == ([{"id": 1}], 0, 0)
