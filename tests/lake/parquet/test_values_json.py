"""JSON values as columns, against Python's own parser."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stratamq.lake.declared import parse_schema
from stratamq.lake.parquet.values import value_columns
from tests.lake.parquet.values_oracle import row_of

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "small", "type": ["null", "int"]},
            {"name": "ok", "type": "boolean"},
            {"name": "x", "type": "double"},
            {"name": "y", "type": ["float", "null"]},
            {"name": "s", "type": "string"},
            {"name": "b", "type": "bytes"},
            {
                "name": "place",
                "type": {
                    "type": "record",
                    "name": "Place",
                    "fields": [
                        {"name": "lat", "type": "double"},
                        {"name": "s", "type": ["null", "string"]},
                    ],
                },
            },
            {"name": "other", "type": ["null", "Place"]},
        ],
    }
)
ROOT = parse_schema(SCHEMA)
COLUMNS = value_columns("json", SCHEMA)

names = st.sampled_from(["id", "small", "ok", "x", "y", "s", "b", "place", "other", "lat", "zz"])
numbers = (
    st.integers(-(2**65), 2**65)
    | st.integers(-100, 100)
    | st.sampled_from([2**31, 2**31 - 1, -(2**31), 2**63, 2**63 - 1, -(2**63), -(2**63) - 1])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(-1e3, 1e3).map(lambda x: round(x, 3))
)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=20)
documents = st.recursive(
    st.dictionaries(names, scalars, max_size=8),
    lambda inner: st.dictionaries(names, scalars | inner | st.lists(inner, max_size=2), max_size=8),
    max_leaves=12,
)
texts = st.builds(
    lambda document, ascii_only, indent: json.dumps(
        document, ensure_ascii=ascii_only, indent=indent
    ).encode("utf-8", "surrogatepass"),
    documents,
    st.booleans(),
    st.sampled_from([None, None, 1]),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    text = bytearray(draw(texts))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        piece = draw(
            st.sampled_from([b'"', b"\\", b"{", b"}", b"[", b",", b":", b"0", b"-", b".", b"e"])
            | st.sampled_from([b"\\u00e9", b"\\ud800", b"\\ud83d\\ude00", b"null", b"NaN", b" "])
            | st.binary(min_size=1, max_size=3)
        )
        text[at : at + draw(st.integers(0, 2))] = piece
    return bytes(text)


def parsed(values: list[bytes | None]) -> tuple[list[Any], int, int]:
    assert COLUMNS is not None
    found = COLUMNS.parse(pa.array(values, pa.binary()))
    found.column.validate(full=True)
    assert found.column.type.equals(COLUMNS.arrow_type)
    return found.column.to_pylist(), found.unparsed, found.misfits


@given(st.lists(st.none() | texts | damaged(), max_size=8))
@example([b'{"s": "\\ud800", "x": 1e400, "y": 1e39, "id": 1.0}'])
@example([b'{"id": 1, "id": null}', b'{"place": {"lat": 1}, "place": {"s": "a"}}'])
@example([b'{"s": "a", "s": "bc"}', b'{"s": "a", "s": 1, "\\u0078": -0.0}', b"{}", b"", b"[]"])
@example([b'{"x": 0.1e-6, "id": -0, "zz": 01}', b'{"x": 123456789012345678901234567890e-20}'])
@example([b'{"id": 9000000000000000001, "s": "12345678\x1f"}', b'{"s": "1234567\xc3\xa912345678"}'])
def test_values_are_those_of_the_twin(values: list[bytes | None]) -> None:
    expected = [row_of(ROOT, value) for value in values]
    rows, unparsed, misfits = parsed(values)
    assert rows == [row for row, _, _ in expected]
    assert unparsed == sum(count for _, count, _ in expected)
    assert misfits == sum(count for _, _, count in expected)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.decimals(allow_nan=False).map(str))
def test_numbers_are_read_to_the_last_bit(number: Any) -> None:
    text = str(number).replace("+", "").lower()
    value = f'{{"x": {text}}}'.encode()
    assert parsed([value])[0] == [row_of(ROOT, value)[0]]


def test_what_has_no_column_is_kept_as_text() -> None:
    fields = [
        {"name": "a", "type": {"type": "array", "items": "int"}},
        {"name": "m", "type": {"type": "map", "values": "string"}},
        {"name": "u", "type": ["int", "string"]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
    ]
    columns = value_columns("json", record(fields))
    assert columns is not None
    value = b'{"a": [1, {"x" :2}], "m": {"k":"v"}, "u": "text", "e": "A"}'
    found = columns.parse(pa.array([value, b'{"a": null}'], pa.binary()))
    assert found.column.to_pylist() == [
        {"a": '[1, {"x" :2}]', "m": '{"k":"v"}', "u": '"text"', "e": "A"},
        {"a": None, "m": None, "u": None, "e": None},
    ]


def record(fields: list[Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


@pytest.mark.parametrize(
    ("logical", "base", "kind", "most"),
    [
        ("timestamp-millis", "long", pa.timestamp("ms", tz="UTC"), 253402300799999),
        ("timestamp-micros", "long", pa.timestamp("us", tz="UTC"), 253402300799999999),
        ("date", "int", pa.date32(), 2932896),
    ],
)
def test_dates_that_readers_cannot_hold_do_not_fit(
    logical: str, base: str, kind: pa.DataType, most: int
) -> None:
    fields = [{"name": "at", "type": {"type": base, "logicalType": logical}}]
    columns = value_columns("json", record(fields))
    assert columns is not None
    assert columns.arrow_type.field(0).type == kind
    values = [b'{"at": %d}' % number for number in (0, most, most + 1)]
    found = columns.parse(pa.array(values, pa.binary()))
    assert [row["at"] is None for row in found.column.to_pylist()] == [False, False, True]
    assert found.misfits == 1


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_deep_document_is_refused_and_nothing_worse(opening: bytes) -> None:
    deep = b'{"zz":' + opening * 100_000
    assert parsed([deep, b'{"id": 1}']) == (
        [None, row_of(ROOT, b'{"id": 1}')[0]],
        1,
        0,
    )
