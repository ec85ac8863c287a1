"""Our messages as kafka-python has them: dictionaries, and its own reader and writer."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from stratamq.wire.kafka.protocol.schema import Array, FieldSpec, fields_of, message_of

_MODULES = (
    "admin.acl",
    "admin.client_quotas",
    "admin.cluster",
    "admin.configs",
    "admin.groups",
    "admin.topics",
    "admin.transactions",
    "admin.users",
    "consumer.fetch",
    "consumer.group",
    "consumer.metadata",
    "consumer.offsets",
    "metadata.api_versions",
    "metadata.find_coordinator",
    "metadata.metadata",
    "producer.produce",
    "producer.transaction",
    "sasl",
)


def _classes() -> Iterator[type[Any]]:
    for name in _MODULES:
        module = importlib.import_module(f"kafka.protocol.{name}")
        yield from (each for each in vars(module).values() if hasattr(each, "_struct"))


with warnings.catch_warnings():
    # It reads its schemas by a deprecated call; that is its business, not ours.
    warnings.simplefilter("ignore", DeprecationWarning)
    TWINS = {each.__name__: each for each in _classes()}


def kafka_python_encode(message: Any, version: int) -> bytes:
    twin = TWINS[type(message).__name__]
    flexible = version in message_of(type(message)).flexible
    as_dict = to_dict(message, twin._struct, version)
    encoded: bytes = twin._struct.encode(
        as_dict, version=version, compact=flexible, tagged=flexible
    )
    return encoded


def kafka_python_decode(message_type: type, version: int, data: bytes) -> dict[str, Any]:
    twin = TWINS[message_type.__name__]
    decoded: dict[str, Any] = twin.decode(data, version=version, header=False).to_dict(json=False)
    return decoded


def to_dict(message: Any, struct: Any, version: int) -> dict[str, Any]:
    """A message under kafka-python's names; the fields are matched by their order."""
    ours = [field for field in fields_of(type(message)) if version in field.versions]
    theirs = [field for field in struct._fields if field.for_version_q(version)]
    return {
        their.name: _value(getattr(message, our.name), our, their, version)
        for our, their in zip(ours, theirs, strict=True)
    }


def _value(value: Any, our: FieldSpec, their: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(our.kind, Array):
        if isinstance(our.kind.element, type):
            return [to_dict(each, their, version) for each in value]
        return value
    if isinstance(our.kind, type):
        return to_dict(value, their, version)
    if our.kind.name == "uuid":
        return UUID(bytes=value) if any(value) else None
    return _bits(value) if their.type_str == "bitfield" else value


def _bits(number: int) -> set[int] | None:
    """kafka-python reads authorised operations as a set."""
    return None if number == -(1 << 31) else {bit for bit in range(31) if number >> bit & 1}


def narrow(struct_type: type, field: FieldSpec) -> st.SearchStrategy[Any] | None:
    """Values that kafka-python can hold."""
    if field.name.endswith("authorized_operations") and field.kind.name == "int32":  # type: ignore[union-attr]
        return st.integers(0, (1 << 31) - 1) | st.just(-(1 << 31))
    if struct_type.__name__ == "ApiVersionsResponse" and field.name == "error_code":
        return st.just(0)  # with any other it reads version 0
    return None
