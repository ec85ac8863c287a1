"""Requests made from the wire schemas, in which one list repeats its element as often as fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stratamq.wire.kafka.protocol import Api
from stratamq.wire.kafka.protocol.schema import Array, FieldSpec, Fixed, Sized, fields_of
from tests.attack.raw import frame_of

WORDS: Mapping[str, Any] = {
    # What the request is about: an element that is there has the longest answer.
    "group_id": "group",
    "groups": "group",
    "group_ids": "group",
    "groups_names": "group",
    "coordinator_keys": "group",
    "transactional_id": "transaction",
    "transactional_ids": "transaction",
    "principal": "User:mallory",
    "entity_type": "user",
    "resource_type": 2,
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 3,
    "permission_type": 3,
    # Ask, and change nothing.
    "validate_only": True,
    "verify_only": True,
    # Do not wait, and leave nothing out.
    "acks": 1,
    "replica_id": -1,
    "session_epoch": -1,
    "member_id": "",
    "session_timeout_ms": 10_000,
    "timeout_ms": 10_000,
    "timestamp": -2,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "num_partitions": 1,
    "replication_factor": 1,
    "response_partition_limit": 1 << 30,
}
"""By the names of fields; a flag called `include_…` is set, other fields have their defaults."""

LARGE = ("topic", "name", "resource_name", "topic_name", "subscribed_topic_names")
"""Fields that name the topic whose description is long."""

OTHERS: Mapping[str, Mapping[str, Any]] = {
    "DeleteTopics": {"name": "none", "topic_id": bytes(16)},  # the topic is still needed
    "FlushLake": {"timeout_ms": 100},  # it waits for each partition, and there is no lake
}
"""APIs that are not asked as the others are."""

Path = tuple[str, ...]


class Requests:
    """Of one version of an API, about a topic."""

    def __init__(self, api: Api, version: int, topic: str, topic_id: bytes) -> None:
        self._api, self._version = api, version
        large = {**dict.fromkeys(LARGE, topic), "topic_id": topic_id}
        self._words = {**WORDS, **large, **OTHERS.get(api.name, {})}

    def lists(self) -> list[Path]:
        """Every list of the request, at any depth."""
        return list(self._lists_in(self._api.request))

    def once(self, path: Path) -> object:
        return self._built(self._api.request, path, 1)

    def repeated(self, path: Path, frame_bytes_max: int) -> object:
        """With as many equal elements in that list as the frame may have."""
        sizes = [
            len(frame_of(self._built(self._api.request, path, count), self._version))
            for count in (1, 101)
        ]
        element_bytes = (sizes[1] - sizes[0]) / 100
        count = 1 + int((frame_bytes_max - sizes[0]) / element_bytes)
        return self._built(self._api.request, path, count)

    def _lists_in(self, struct: type) -> Iterator[Path]:
        for field in self._fields(struct):
            element = field.kind.element if isinstance(field.kind, Array) else field.kind
            if isinstance(field.kind, Array):
                yield (field.name,)
            if isinstance(element, type):
                for path in self._lists_in(element):
                    yield (field.name, *path)

    def _fields(self, struct: type) -> list[FieldSpec]:
        return [one for one in fields_of(struct) if self._version in one.versions]

    def _built(self, struct: type, path: Path, count: int) -> Any:
        """`path` leads to the list; other lists have one element."""
        values = {
            field.name: self._value(field, path[1:] if path[:1] == (field.name,) else None, count)
            for field in self._fields(struct)
        }
        return struct(**values)

    def _value(self, field: FieldSpec, path: Path | None, count: int) -> Any:
        kind = field.kind
        if isinstance(kind, Array):
            if path is None and self._version in field.nullable:
                return None  # everything
            element = self._element(field, kind.element, path or (), count)
            return [element] * (count if path == () else 1)
        if isinstance(kind, type):
            empty = path is None and self._version in field.nullable
            return None if empty else self._built(kind, path or (), count)
        return self._element(field, kind, (), count)

    def _element(self, field: FieldSpec, kind: Fixed | Sized | type, path: Path, count: int) -> Any:
        if isinstance(kind, type):
            return self._built(kind, path, count)
        if field.name in self._words:
            return self._words[field.name]
        if field.name.startswith("include_"):
            return True
        if not isinstance(field.kind, Array) and isinstance(field.default, (int, str, bytes)):
            return field.default
        if isinstance(kind, Fixed):
            return {"bool": False, "uuid": bytes(16), "float64": 0.0}.get(kind.name, 0)
        return "x" if kind.name == "string" else b""
