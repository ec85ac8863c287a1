"""Records as lines, both ways."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stratamq.cli.failing import UsageError
from stratamq.cli.formats import as_json, format_of, record_of_json, record_of_line, unescaped
from stratamq.client import TopicPartition
from stratamq.model.record import Record
from stratamq.model.types import Offset, TimestampMs

PLACE = TopicPartition("orders", 2)
RECORD = Record(
    value=b"2 coffees",
    key=b"alice",
    headers=((b"a", b"1"), (b"b", None)),
    tags=(b"hot", b"sweet"),
    timestamp=TimestampMs(1_794_830_400_250),
    offset=Offset(7),
)
data = some.none() | some.binary(max_size=20) | some.text(max_size=9).map(str.encode)


@given(data, data, some.lists(some.tuples(some.text(max_size=5).map(str.encode), data)))
def test_json_comes_back_as_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]]
) -> None:
    record = Record(
        value=value, key=key, headers=tuple(headers), tags=(b"x", b"\xff"), timestamp=TimestampMs(5)
    )
    line = json.dumps(as_json(PLACE, record)).encode()
    assert record_of_json(line) == record


def test_json_has_a_stable_shape() -> None:
    assert json.loads(format_of("json")(PLACE, RECORD)) == {
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "timestamp": 1_794_830_400_250,
        "time": "2026-11-16T12:00:00.250Z",
        "key": "alice",
        "value": "2 coffees",
        "headers": [["a", "1"], ["b", None]],
        "tags": ["hot", "sweet"],
    }
    binary = as_json(PLACE, Record(value=b"\xff", offset=Offset(0)))
    assert (binary["key"], binary["value"]) == (None, {"base64": "/w=="})


@pytest.mark.parametrize(
    ("format", "line"),
    [
        ("value", b"2 coffees\n"),
        ("key-value", b"alice\t2 coffees\n"),
        ("{key}: {value}", b"alice: 2 coffees\n"),
        (r"{topic}-{partition}\t{offset}\\n", b"orders-2\t7\\n\n"),
        ("{timestamp} {time} {{key}", b"1794830400250 2026-11-16T12:00:00.250Z {alice\n"),
        ("{headers}|{tags}", b"a=1,b=|hot,sweet\n"),
    ],
)
def test_formats(format: str, line: bytes) -> None:
    assert format_of(format)(PLACE, RECORD) == line


def test_nulls_are_empty_in_text() -> None:
    assert format_of("key-value")(PLACE, Record()) == b"\t\n"


@pytest.mark.parametrize(
    ("format", "said"),
    [("values", "is not value, key-value"), ("{vaule}", "{vaule} in the format")],
)
def test_what_is_no_format(format: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        format_of(format)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "not an object"),
        (b'{"value": "x", "keys": 1}', "'keys' is not one of"),
        (b'{"value": "x", "timestamp": "now"}', "milliseconds"),
        (b'{"value": "x", "headers": ["ab"]}', "headers"),
        (b'{"value": {"base64": "?"}}', "not base64"),
    ],
)
def test_what_is_no_record(line: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        record_of_json(line)


def test_json_that_is_no_text_is_stored_as_json() -> None:
    line = b'{"key": 7, "value": {"a": [1, null]}, "headers": {"h": "x"}}'
    expected = Record(value=b'{"a":[1,null]}', key=b"7", headers=((b"h", b"x"),))
    assert record_of_json(line) == expected


def test_plain_lines() -> None:
    assert record_of_line(b"a:b:c", b":", (), (b"t",)) == Record(b"b:c", b"a", tags=(b"t",))
    assert record_of_line(b"a:b", None, (), ()) == Record(b"a:b")
    with pytest.raises(UsageError, match="no ':' after a key"):
        record_of_line(b"ab", b":", (), ())
    assert unescaped(r"\t|\q") == "\t|\\q"
