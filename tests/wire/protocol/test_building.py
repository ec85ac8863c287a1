"""Messages are built as dataclasses are, although their constructors are made at first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from stratamq.wire.kafka.protocol.schema import INT32, STRING, array, struct, wire


def fresh() -> Any:
    """A class of which nothing was built yet."""

    @struct
    class Place:
        name: str = wire(STRING)
        seats: int = wire(INT32, default=4)
        rows: Sequence[int] = wire(array(INT32), default=())
        owner: str | None = wire(STRING, nullable=True, default=None)

    return Place


def test_defaults_and_what_is_given() -> None:
    place = fresh()
    first, second = place(name="a"), place(name="b", seats=1, rows=(), owner="x")
    assert (first.name, first.seats, first.rows, first.owner) == ("a", 4, [], None)
    assert (second.name, second.seats, second.rows, second.owner) == ("b", 1, (), "x")
    assert first.rows is not place(name="c").rows, "a list of its own"
    assert replace(first, seats=7) == place(name="a", seats=7)


@pytest.mark.parametrize("times", [1, 2])
def test_mistakes_are_named(times: int) -> None:
    place = fresh()
    for _ in range(times):
        with pytest.raises(TypeError, match=r"Place.__init__.*'name'"):
            place()
        with pytest.raises(TypeError, match="positional"):
            place("a")
        with pytest.raises(TypeError, match="unexpected keyword argument 'nmae'"):
            place(nmae="a")


def test_a_message_without_fields() -> None:
    @struct
    class Nothing:
        pass

    assert Nothing() == Nothing()


def test_no_other_attribute_can_be_set() -> None:
    built = fresh()(name="a")
    built.seats = 5
    with pytest.raises(AttributeError):
        built.chairs = 5


def test_the_library_knows_the_fields() -> None:
    place: Any = fresh()
    names = ["name", "seats", "rows", "owner"]
    assert [each.name for each in fields(place)] == names
    assert [each.name for each in fields(place(name="a"))] == names
