"""Columns that a topic declares: their text, what may follow them, and what files have."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from stratamq.lake.declared import (
    Column,
    check_values,
    columns_of,
    columns_text,
    declared,
    merged,
    parse_columns,
)
from stratamq.lake.parquet.values import ARROW_TYPES, value_columns
from stratamq.model.errors import InvalidConfig, InvalidInput

TYPES: dict[str, Any] = {
    "flag": "boolean",
    "id": "long",
    "small": ["null", "int"],
    "ratio": "float",
    "price": "double",
    "name": ["null", "string"],
    "raw": "bytes",
    "sum": {"type": "fixed", "name": "Sum", "size": 4},
    "state": {"type": "enum", "name": "State", "symbols": ["ON", "OFF"]},
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "seen": {"type": "long", "logicalType": "timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "items": {"type": "array", "items": "long"},
    "more": {"type": "map", "values": "long"},
    "either": ["long", "string"],
    "nothing": "null",
    "empty": {"type": "record", "name": "Empty", "fields": []},
    "where": {
        "type": "record",
        "name": "Where",
        "fields": [{"name": "city", "type": "string"}, {"name": "tags", "type": ["int", "long"]}],
    },
}


def schema(**fields: Any) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Value", "fields": listed})


def arrow(columns: tuple[Column, ...]) -> pa.DataType:
    kinds = {**ARROW_TYPES, "binary": pa.binary()}
    return pa.struct(
        [pa.field(c.name, arrow(c.children) if c.children else kinds[c.kind]) for c in columns]
    )


@pytest.mark.parametrize("value_format", ["json", "avro"])
def test_the_columns_are_those_that_files_get(value_format: str) -> None:
    text = schema(**TYPES)
    typed = value_columns(value_format, text)
    assert typed is not None
    columns = columns_of(declared(value_format, text))
    assert arrow(columns) == typed.arrow_type
    assert parse_columns(columns_text(columns)) == columns


def test_the_same_columns_are_the_same_text() -> None:
    one = schema(id="long", name=["null", "string"])
    other = schema(id={"type": "long"}, name="string")
    texts = {
        columns_text(columns_of(declared(f, s))) for f in ("json", "avro") for s in (one, other)
    }
    assert texts == {'[["id","long"],["name","string"]]'}
    assert columns_text(columns_of(declared("none"))) == ""
    assert parse_columns("") == ()


@pytest.mark.parametrize("text", ["{", "[1]", '[["a","b"]]', '[["a"]]', '{"a":1}', "3"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        parse_columns(text)


def check(before: tuple[str, str], after: tuple[str, str], *files: str) -> None:
    check_values(declared(*before), declared(*after), files)


OLD = '[["id","long"],["where",[["city","string"]]]]'


@pytest.mark.parametrize(
    ("before", "after", "files"),
    [
        (("json", schema(id="long")), ("json", schema(id="long", name="string")), []),
        (("none", ""), ("json", schema(id="long")), []),
        (("json", schema(id="long")), ("none", ""), ['[["id","long"]]']),
        (("json", schema(id="long")), ("avro", schema(id="long", x="int")), []),
        (("none", ""), ("json", schema(id="long", where=TYPES["where"])), [OLD]),
        (("none", ""), ("json", schema(new="long")), [OLD]),
    ],
)
def test_columns_may_be_added(
    before: tuple[str, str], after: tuple[str, str], files: list[str]
) -> None:
    check(before, after, *files)


@pytest.mark.parametrize(
    ("before", "after", "files", "words"),
    [
        (("json", schema(id="long")), ("json", schema(id="string")), [], "value.id was long"),
        (("json", schema(id="long")), ("json", schema(name="string")), [], "not where it was"),
        (("json", schema(id="long")), ("avro", schema(id="int")), [], "id is long and cannot"),
        (("none", ""), ("json", schema(id="int")), [OLD], "id is long and cannot become int"),
        (("none", ""), ("json", schema(where="int")), [OLD], "where is record and cannot"),
        (("none", ""), ("json", ""), [], "json values need one"),
        (("none", ""), ("json", "{"), [], "not JSON"),
    ],
)
def test_anything_else_is_refused_in_words(
    before: tuple[str, str], after: tuple[str, str], files: list[str], words: str
) -> None:
    with pytest.raises(InvalidConfig, match=words):
        check(before, after, *files)


def test_a_table_has_the_columns_of_all_its_files() -> None:
    texts = ("", OLD, '[["where",[["city","string"],["zip","int"]]],["at","date"]]')
    assert columns_text(merged(map(parse_columns, texts))) == (
        '[["id","long"],["where",[["city","string"],["zip","int"]]],["at","date"]]'
    )


def test_it_needs_no_pyarrow() -> None:
    code = "import sys, stratamq.lake.declared; print('pyarrow' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
