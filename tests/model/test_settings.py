"""Settings are read from text the same way everywhere."""

from __future__ import annotations

import pytest

from stratamq.model.errors import InvalidConfig
from stratamq.model.settings.setting import VALUE_CHARS_MAX, Setting, parse_all, unknown_name

SIZE = Setting(name="size", default=10, minimum=1, maximum=100, doc="A size.")
FLAG = Setting(name="flag", default=False, doc="A flag.")
MODE = Setting(name="mode", default="a", choices=("a", "b"), doc="A mode.")
TABLE = {setting.name: setting for setting in (SIZE, FLAG, MODE)}


@pytest.mark.parametrize("raw", [7, "7", " 7 ", "+7"])
def test_numbers(raw: object) -> None:
    assert SIZE.parse(raw) == 7


@pytest.mark.parametrize("raw", ["", "7.0", 7.5, "0x7", None, True, "101", 0])
def test_what_is_no_number_in_range(raw: object) -> None:
    with pytest.raises(InvalidConfig, match="size"):
        SIZE.parse(raw)


@pytest.mark.parametrize(("raw", "value"), [(True, True), ("TRUE", True), (" false ", False)])
def test_booleans(raw: object, value: bool) -> None:
    assert FLAG.parse(raw) is value


@pytest.mark.parametrize("raw", [1, "yes", "", None])
def test_what_is_neither_true_nor_false(raw: object) -> None:
    with pytest.raises(InvalidConfig, match="flag"):
        FLAG.parse(raw)


def test_text_has_a_limit() -> None:
    text = Setting(name="schema", default="", doc="A text.")
    assert text.parse("x" * VALUE_CHARS_MAX)
    with pytest.raises(InvalidConfig, match=f"schema: {VALUE_CHARS_MAX + 1} characters"):
        text.parse("x" * (VALUE_CHARS_MAX + 1))


def test_choices() -> None:
    assert MODE.parse(" b ") == "b"
    with pytest.raises(InvalidConfig, match="mode: 'c' is not one of a, b"):
        MODE.parse("c")


def test_all_of_a_table_given_or_default() -> None:
    assert parse_all(TABLE, {"size": "3"}) == {"size": 3, "flag": False, "mode": "a"}
    with pytest.raises(InvalidConfig, match="did you mean 'size'"):
        parse_all(TABLE, {"sise": 3})


def test_a_name_like_no_other_gets_no_hint() -> None:
    assert "did you mean" not in str(unknown_name("zzzzzz", TABLE))


LIST = Setting(name="list", default="b", choices=("a", "b", "c"), many=True, doc="A list.")


@pytest.mark.parametrize(
    ("raw", "value"), [("a", "a"), ("c,a", "a,c"), (" b , a ", "a,b"), ("a,a", "a")]
)
def test_lists_are_the_same_text_in_whatever_order(raw: str, value: str) -> None:
    assert LIST.parse(raw) == value


@pytest.mark.parametrize("raw", ["d", "a,", "a b", ","])
def test_lists_of_what_is_no_choice(raw: str) -> None:
    with pytest.raises(InvalidConfig, match="is not one of a, b, c"):
        LIST.parse(raw)
