"""What people type, as values; and tables."""

from __future__ import annotations

import pytest

from stratamq.cli.failing import UsageError
from stratamq.cli.specs import OffsetSpec, offset_spec, pairs, time_ms, time_text
from stratamq.cli.tables import table

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "offset"),
    [("earliest", 10), ("latest", 50), ("42", 42), ("0", 0), ("-5", 45), ("-100", 10), ("-0", 50)],
)
def test_offsets(text: str, offset: int) -> None:
    assert offset_spec(text).within(10, 50) == offset


@pytest.mark.parametrize("text", ["", "first", "1.5", "--1", "٣"])
def test_what_is_no_offset(text: str) -> None:
    with pytest.raises(UsageError, match="is not earliest"):
        offset_spec(text)


def test_an_offset_is_a_value() -> None:
    assert offset_spec("7") == OffsetSpec(None, 7)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("now", NOW),
        ("-90s", NOW - 90_000),
        ("-15m", NOW - 900_000),
        ("-2h", NOW - 7_200_000),
        ("-1d", NOW - 86_400_000),
        ("1763294400000", 1_763_294_400_000),
        ("2026-11-16", 1_794_787_200_000),
        ("2026-11-16T12:00", 1_794_830_400_000),
        ("2026-11-16 12:00:00.250", 1_794_830_400_250),
        ("2026-11-16T12:00Z", 1_794_830_400_000),
        ("2026-11-16T12:00+01:00", 1_794_826_800_000),
    ],
)
def test_times(text: str, ms: int) -> None:
    assert time_ms(text, NOW) == ms


@pytest.mark.parametrize("text", ["", "soon", "-5", "-5w", "2026-13-01", "12345"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is not like"):
        time_ms(text, NOW)


def test_times_as_text() -> None:
    assert time_text(1_794_830_400_250) == "2026-11-16T12:00:00.250Z"
    assert time_text(1 << 62) == str(1 << 62)
    assert time_text(-1) == "1969-12-31T23:59:59.999Z"


def test_pairs() -> None:
    assert pairs(["a=1", "b=x=y", "c="], "-c") == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(UsageError, match="-c takes name=value, not '=1'"):
        pairs(["=1"], "-c")


def test_a_table_is_as_wide_as_it_needs() -> None:
    assert table(("name", "count"), [("a", 5), ("bbbbb", 1234), ("c", None)]) == [
        "NAME   COUNT",
        "a          5",
        "bbbbb   1234",
        "c          -",
    ]
    assert table(("name", "note"), []) == ["NAME  NOTE"]


def test_a_cell_stays_on_its_line() -> None:
    assert table(("name",), [("a\nb\x1b[1m",)]) == ["NAME", r"'a\nb\x1b[1m'"]
