"""A map that is never changed: every change gives a new map and shares all but a sliver with the
old one.

It is iterated in the order of its keys. The order of the buckets follows `hash`, which differs from
process to process, and what a node does must not: rules emit events in the order of their tables.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import chain
from typing import Any, Protocol, TypeVar


class Key(Hashable, Protocol):
    """What a table may be looked up by."""

    def __lt__(self, other: Any, /) -> bool: ...


K = TypeVar("K", bound=Key)
V = TypeVar("V")

BUCKETS = 1024
"""A change copies one bucket: with a million shards that is a thousand entries instead of a
million."""

_NOTHING: dict[Any, Any] = {}
_EMPTY: tuple[dict[Any, Any], ...] = (_NOTHING,) * BUCKETS


class PMap(Mapping[K, V]):
    """Immutable. Look-ups are two dict look-ups; `with_` and `without` cost O(len / 1024),
    iterating over all of it costs a sort."""

    __slots__ = ("_buckets", "_size")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        buckets: list[dict[K, V]] = list(_EMPTY)
        for key, value in (items or {}).items():
            place = hash(key) % BUCKETS
            if buckets[place] is _NOTHING:
                buckets[place] = {}
            buckets[place][key] = value
        self._buckets = tuple(buckets)
        self._size = len(items or ())

    def with_(self, key: K, value: V) -> PMap[K, V]:
        place = hash(key) % BUCKETS
        old = self._buckets[place]
        return self._replaced(place, {**old, key: value}, grown=key not in old)

    def without(self, key: K) -> PMap[K, V]:
        """The map without `key`, which may be absent."""
        place = hash(key) % BUCKETS
        old = self._buckets[place]
        if key not in old:
            return self
        kept = {other: value for other, value in old.items() if other != key}
        return self._replaced(place, kept, grown=-1)

    def _replaced(self, place: int, bucket: dict[K, V], *, grown: int) -> PMap[K, V]:
        new: PMap[K, V] = PMap.__new__(PMap)
        new._buckets = (*self._buckets[:place], bucket, *self._buckets[place + 1 :])
        new._size = self._size + grown
        return new

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) % BUCKETS][key]

    def __iter__(self) -> Iterator[K]:
        return iter(sorted(chain.from_iterable(self._buckets)))

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"PMap({dict(self)!r})"
