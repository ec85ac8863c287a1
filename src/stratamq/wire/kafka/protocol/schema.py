"""The words in which messages are declared.

A message is one class for all its versions; each field says its wire type and, where that is not
all of them, its versions:

    @request(key=3, versions="0-13", flexible="9+")
    class MetadataRequest:
        topics: Sequence[MetadataRequestTopic] | None = wire(
            array(MetadataRequestTopic), nullable="1+"
        )
        allow_auto_topic_creation: bool = wire(BOOL, versions="4+", default=True)

`versions` of a field are those of the message around it, in structs too. A field that a version
does not have takes its default when read. When written it must hold its default, unless it is
`ignorable`: then it is left out. A field with a `tag` is a tagged field: sent only when it differs
from its default.

Messages are plain dataclasses with slots. They are not frozen: a frozen one takes two to four times
as long to build, and the broker builds one per partition and request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, TypeVar, dataclass_transform

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

NO_UUID = bytes(16)
"""What a UUID field holds when there is none."""

ANY_VERSION = 32_767
"""The version field is an int16; an open range ends where it does."""


class Versions(NamedTuple):
    """`first` to `last`, both included. `first > last` is the empty range."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def covers(self, other: Versions) -> bool:
        return self.first <= other.first and other.last <= self.last


ALL = Versions(0, ANY_VERSION)
NONE = Versions(0, -1)


@cache
def versions_of(text: str) -> Versions:
    """Read `none`, `4`, `4-7` or `4+`. Only our own tables come here, so ValueError will do."""
    if text == "none":
        return NONE
    if text.endswith("+"):
        return Versions(int(text[:-1]), ANY_VERSION)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed width: one code of the struct module."""

    name: str
    code: str
    width: int


@dataclass(frozen=True, slots=True)
class Sized:
    """Bytes after their length, which is a varint plus one in flexible versions."""

    name: str
    length_code: str


@dataclass(frozen=True, slots=True)
class Array:
    """Elements after their count."""

    element: Fixed | Sized | type


Kind = Fixed | Sized | Array | type
"""A wire type; a class stands for the struct it declares."""

BOOL = Fixed("bool", "?", 1)
INT8 = Fixed("int8", "b", 1)
INT16 = Fixed("int16", "h", 2)
UINT16 = Fixed("uint16", "H", 2)
INT32 = Fixed("int32", "i", 4)
INT64 = Fixed("int64", "q", 8)
FLOAT64 = Fixed("float64", "d", 8)
UUID = Fixed("uuid", "16s", 16)
STRING = Sized("string", "h")
BYTES = Sized("bytes", "i")
RECORDS = Sized("records", "i")
"""As BYTES, but read as a view into the frame and written without being copied."""

WIDTHS = {"b": 1, "B": 1, "?": 1, "x": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8, "16s": 16}


def array(element: Fixed | Sized | type) -> Array:
    return Array(element)


class FieldSpec(NamedTuple):
    """One field as it was declared. A tuple: there are a thousand, made when a node starts."""

    name: str
    kind: Kind
    versions: Versions
    nullable: Versions
    default: object
    ignorable: bool
    tag: int | None
    secret: bool


class Role(StrEnum):
    REQUEST = "request"
    RESPONSE = "response"
    DATA = "data"
    """A structure that travels inside a bytes field of another message."""


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """A message as it was declared. `key` is -1 for embedded data."""

    type: type
    role: Role
    key: int
    versions: Versions
    flexible: Versions

    @property
    def name(self) -> str:
        return self.type.__name__


def wire(
    kind: Kind,
    *,
    versions: str | None = None,
    nullable: str | bool = False,
    default: Any = MISSING,
    ignorable: bool = False,
    tag: int | None = None,
    secret: bool = False,
) -> Any:
    """Declare a field. Without a default it must be given when the message is built.

    `nullable` is true, or the versions in which null may be sent. The default of an array is (),
    which stands for a new list, or None. A secret stays out of `repr`, and so out of every log.
    """
    return FieldSpec(
        name="",  # known to the class only
        kind=kind,
        versions=versions_of(versions) if versions else ALL,
        nullable=versions_of(nullable) if isinstance(nullable, str) else ALL if nullable else NONE,
        default=default,
        ignorable=ignorable,
        tag=tag,
        secret=secret,
    )


_fields: dict[type, tuple[FieldSpec, ...]] = {}
_messages: dict[type, MessageSpec] = {}


def fields_of(struct_type: type) -> tuple[FieldSpec, ...]:
    """The fields of a struct or message, in the order of the wire."""
    return _fields[struct_type]


def message_of(message_type: type) -> MessageSpec:
    return _messages[message_type]


def declared_in(module: str) -> list[MessageSpec]:
    """The messages that a module declares."""
    return [message for message in _messages.values() if message.type.__module__ == module]


def _declare(cls: type[T]) -> type[T]:
    """Make what the library would call a dataclass with slots, all keywords.

    A node imports every message when it starts and builds few of them. The library would look at
    each field several times and compile three functions and a signature for each class, which is
    most of the time that the import takes.
    """
    declared = {name: vars(cls)[name]._replace(name=name) for name in _annotations(cls)}
    body = {name: value for name, value in vars(cls).items() if name not in declared}
    for made_for_every_class in ("__dict__", "__weakref__"):
        body.pop(made_for_every_class, None)
    body |= {"__slots__": tuple(declared), "__qualname__": cls.__qualname__, **_SHARED}
    made: type[T] = type(cls.__name__, cls.__bases__, body)
    _fields[made] = tuple(declared.values())
    return made


def _annotations(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = vars(cls).get("__annotations__", {})
    return found


class _LibraryFields:
    """What the library knows a dataclass by, built when it is first asked to copy a message or to
    name its fields."""

    def __get__(self, message: object, owner: type) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for each in _fields[owner]:
            is_list = each.default == ()
            body[each.name] = (
                field(default_factory=list) if is_list else field(default=each.default)
            )
        body["__annotations__"] = _annotations(owner)
        twin: type = dataclass(init=False, eq=False, repr=False, kw_only=True)(
            type("Twin", (), body)
        )
        made: dict[str, Any] = getattr(twin, FIELDS)
        setattr(owner, FIELDS, made)
        return made


def _built_first(self: object, **given: Any) -> None:
    """Stands in for the constructor until one is made, when the first message is built."""
    made = _constructor(_fields[type(self)], type(self).__name__)
    setattr(type(self), "__init__", made)  # noqa: B010
    made(self, **given)


def _constructor(declared: tuple[FieldSpec, ...], name: str) -> Callable[..., None]:
    """`__init__` as the library would write it."""
    namespace: dict[str, Any] = {"list": list, "NEW": object()}
    parameters, lines = [], []
    for each in declared:
        value = each.name
        if each.default is MISSING:
            parameters.append(each.name)
        elif each.default == ():
            parameters.append(f"{each.name}=NEW")
            value = f"list() if {each.name} is NEW else {each.name}"
        else:
            namespace[f"default_{each.name}"] = each.default
            parameters.append(f"{each.name}=default_{each.name}")
        lines.append(f"    self.{each.name} = {value}\n")
    star = ", *, " if parameters else ""
    head = f"def __init__(self{star}{', '.join(parameters)}):\n"
    exec(head + ("".join(lines) or "    pass\n"), namespace)
    made: Callable[..., None] = namespace["__init__"]
    made.__qualname__ = f"{name}.__init__"
    return made


def _equal(self: object, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(
        getattr(self, field.name) == getattr(other, field.name) for field in _fields[type(self)]
    )


def _shown(self: object) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in _fields[type(self)] if not f.secret)
    return f"{type(self).__name__}({', '.join(shown)})"


FIELDS = "__dataclass_fields__"
_SHARED: Mapping[str, Any] = {
    "__init__": _built_first,
    "__eq__": _equal,
    "__repr__": _shown,
    "__hash__": None,
    FIELDS: _LibraryFields(),
}
"""What all messages have alike."""


def _message(role: Role, key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    def declare(cls: type[T]) -> type[T]:
        made = _declare(cls)
        _messages[made] = MessageSpec(made, role, key, versions_of(versions), versions_of(flexible))
        return made

    return declare


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def struct(cls: type[T]) -> type[T]:
    """A part of messages."""
    return _declare(cls)


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def request(*, key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    return _message(Role.REQUEST, key, versions, flexible)


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def response(*, key: int, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    return _message(Role.RESPONSE, key, versions, flexible)


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
def data(*, versions: str, flexible: str = "none") -> Callable[[type[T]], type[T]]:
    return _message(Role.DATA, -1, versions, flexible)
