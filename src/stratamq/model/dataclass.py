"""`dataclass` as the library has it, with its methods compiled when they are first used.

The library writes six functions for each class and compiles them one by one: a quarter of the time
in which a node starts, for classes most of which it may never make anything of. Here a class gets
stand-ins. The first call of one has the library write the real method, which takes its place for
good; from then on nothing differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass

__all__ = ["dataclass"]

T = TypeVar("T")

WRITTEN_LATER = ("__init__", "__repr__", "__eq__")
_HASH = "__hash__"


def _dataclass(
    *, frozen: bool = False, slots: bool = False, kw_only: bool = False, **more: Any
) -> Callable[[type[T]], type[T]]:
    def decorate(cls: type[T]) -> type[T]:
        if more or not _is_plain(cls):
            whole = dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only, **more)
            return whole(cls)
        return _with_stand_ins(cls, frozen, slots, kw_only)

    return decorate


def _is_plain(cls: type) -> bool:
    """Whether nothing of it was written by hand that the library would write, or was inherited
    from another dataclass."""
    by_hand = {*WRITTEN_LATER, _HASH, "__setattr__", "__delattr__", "__getstate__", "__setstate__"}
    return by_hand.isdisjoint(vars(cls)) and not dataclasses.is_dataclass(cls)


def _with_stand_ins(cls: type[T], frozen: bool, slots: bool, kw_only: bool) -> type[T]:
    if cls.__doc__ is None:
        cls.__doc__ = f"{cls.__name__}."  # or the library would work out a signature for it
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(
        cls
    )
    for name in (*WRITTEN_LATER, _HASH) if frozen else WRITTEN_LATER:
        setattr(made, name, _stand_in(made, name, frozen))
    if frozen:
        _freeze(made, slots)
    else:
        setattr(made, _HASH, None)
    return made


def _stand_in(cls: type, name: str, frozen: bool) -> Callable[..., Any]:
    def first(self: object, *args: Any, **kwargs: Any) -> Any:
        real = _written(cls, name, frozen)
        for method in ("__eq__", _HASH) if name in ("__eq__", _HASH) else (name,):
            setattr(cls, method, getattr(real, method))
        return getattr(real, name)(self, *args, **kwargs)

    first.__name__, first.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return first


def _written(cls: type, wanted: str, frozen: bool) -> type:
    """A class of the same fields, for which the library has written the wanted method. That looks
    at the fields of what it is given, and so serves the other class as well."""
    fields: dict[str, dataclasses.Field[Any]] = getattr(cls, "__dataclass_fields__")  # noqa: B009
    body: dict[str, Any] = {
        **fields,
        "__annotations__": {name: field.type for name, field in fields.items()},
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    if hasattr(cls, "__post_init__"):
        body["__post_init__"] = cls.__post_init__
    write = dataclasses.dataclass(
        init=wanted == "__init__",
        repr=wanted == "__repr__",
        eq=wanted in ("__eq__", _HASH),
        frozen=frozen,
        match_args=False,
    )
    written: type = write(type(cls.__name__, (), body))
    return written


# -- frozen classes --------------------------------------------------------------------------------


def _freeze(cls: type, slots: bool) -> None:
    getattr(cls, "__dataclass_params__").frozen = True  # noqa: B009
    setattr(cls, "__setattr__", _refuse_to_set)  # noqa: B010
    setattr(cls, "__delattr__", _refuse_to_delete)  # noqa: B010
    if slots:  # pickle and copy would set one field after the other
        setattr(cls, "__getstate__", _state)  # noqa: B010
        setattr(cls, "__setstate__", _set_state)  # noqa: B010


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


if not TYPE_CHECKING:
    dataclass = _dataclass
