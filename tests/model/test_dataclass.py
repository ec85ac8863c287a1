"""Our dataclasses behave as the library's, before and after their methods are written."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from stratamq.model.dataclass import WRITTEN_LATER, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """With a bit of everything."""

    LIMIT: ClassVar[int] = 7

    name: str
    tags: list[str] = field(default_factory=list, hash=False)
    count: int = 3
    secret: str = field(default="s", repr=False, compare=False)


@dataclass(slots=True)
class Open:
    number: int
    text: str = "t"


@dataclass(frozen=True, slots=True)
class Checked:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("below zero")

    def doubled(self) -> int:
        return self.number * 2


def unused() -> Any:
    """A class of which nothing was made yet."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Unused:
        number: int

    return Unused


def test_fields_and_defaults() -> None:
    one, two = Frozen(name="a"), Frozen(name="a")
    assert (one.name, one.tags, one.count, Frozen.LIMIT) == ("a", [], 3, 7)
    assert one.tags is not two.tags
    assert Open(1) == Open(1, "t") != Open(2)
    assert [each.name for each in dataclasses.fields(Frozen)] == ["name", "tags", "count", "secret"]


def test_equality_hash_and_repr_follow_the_fields() -> None:
    one: object = Frozen(name="a", secret="x")
    assert one == Frozen(name="a", secret="y") != Frozen(name="b")
    assert hash(one) == hash(Frozen(name="a", tags=["more"]))
    other: object = Checked(1)
    assert one != other
    assert repr(one) == "Frozen(name='a', tags=[], count=3)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open(1))


def test_frozen_is_frozen() -> None:
    one: Any = Frozen(name="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.other = 1
    changeable = Open(1)
    changeable.number = 2
    assert changeable == Open(2)


def test_arguments_are_checked_from_the_first_call_on() -> None:
    made = unused()
    for _ in range(2):
        with pytest.raises(TypeError, match="number"):
            made()
        with pytest.raises(TypeError, match="positional"):
            made(1)
        with pytest.raises(TypeError, match="other"):
            made(number=1, other=2)


def test_what_checks_itself_is_checked() -> None:
    assert Checked(4).doubled() == 8
    with pytest.raises(ValueError, match="below zero"):
        Checked(-1)
    with pytest.raises(ValueError, match="below zero"):
        dataclasses.replace(Checked(1), number=-1)


@pytest.mark.parametrize("again", [copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize("one", [Frozen(name="a", tags=["x"]), Open(1), Checked(2)])
def test_copies_are_equal(one: object, again: Callable[[object], object]) -> None:
    assert again(one) == one
    assert again(one) is not one


@pytest.mark.parametrize("use", [hash, repr, lambda one: one == one], ids=["hash", "repr", "eq"])
def test_what_no_constructor_made_works_too(use: Callable[[object], object]) -> None:
    made = unused()
    one = made.__new__(made)
    object.__setattr__(one, "number", 1)
    assert use(one) == use(made(number=1))


def test_each_method_is_the_librarys_once_it_was_used() -> None:
    made = unused()
    before = dict(vars(made))
    one = made(number=1)
    assert vars(made)["__init__"] is not before["__init__"]
    assert vars(made)["__eq__"] is before["__eq__"]
    assert str(inspect.signature(made)) == "(*, number: 'int') -> None"
    assert one == made(number=1)
    assert repr(one).endswith("Unused(number=1)")
    assert all(vars(made)[name] is not before[name] for name in (*WRITTEN_LATER, "__hash__"))


def test_what_is_written_by_hand_stays() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        number: int

        def __repr__(self) -> str:
            return "mine"

    @dataclass(frozen=True, slots=True)
    class Child(Checked):
        text: str

    assert repr(Own(1)) == "mine"
    assert Child(1, "a") == Child(1, "a")
    with pytest.raises(ValueError, match="below zero"):
        Child(-1, "a")


def test_options_of_the_library() -> None:
    @dataclass(frozen=True, order=True)
    class Ordered:
        number: int

    assert Ordered(1) < Ordered(2)
