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

SIDE = 32
BUCKETS = SIDE * SIDE
"""A change copies one bucket: with a million shards that is a thousand entries instead of a
million. Buckets are in a square, so that a change copies a row and a column of references."""

_NOTHING: dict[Any, Any] = {}
_EMPTY_ROW: tuple[dict[Any, Any], ...] = (_NOTHING,) * SIDE
_EMPTY = (_EMPTY_ROW,) * SIDE


class PMap(Mapping[K, V]):
    """Immutable. Look-ups are two dict look-ups; `with_` and `without` cost O(len / 1024),
    iterating over all of it costs a sort."""

    __slots__ = ("_rows", "_size")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        buckets: dict[int, dict[K, V]] = {}
        for key, value in (items or {}).items():
            buckets.setdefault(hash(key) % BUCKETS, {})[key] = value
        self._rows: tuple[tuple[dict[K, V], ...], ...] = _EMPTY
        if buckets:
            flat = [buckets.get(place, _NOTHING) for place in range(BUCKETS)]
            self._rows = tuple(tuple(flat[at : at + SIDE]) for at in range(0, BUCKETS, SIDE))
        self._size = len(items or ())

    def with_(self, key: K, value: V) -> PMap[K, V]:
        place = hash(key) % BUCKETS
        old = self._rows[place // SIDE][place % SIDE]
        return self._replaced(place, {**old, key: value}, grown=key not in old)

    def without(self, key: K) -> PMap[K, V]:
        """The map without `key`, which may be absent."""
        place = hash(key) % BUCKETS
        old = self._rows[place // SIDE][place % SIDE]
        if key not in old:
            return self
        kept = {other: value for other, value in old.items() if other != key}
        return self._replaced(place, kept, grown=-1)

    def _replaced(self, place: int, bucket: dict[K, V], *, grown: int) -> PMap[K, V]:
        new: PMap[K, V] = PMap.__new__(PMap)
        rows, (at, column) = self._rows, divmod(place, SIDE)
        row = (*rows[at][:column], bucket, *rows[at][column + 1 :])
        new._rows = (*rows[:at], row, *rows[at + 1 :])
        new._size = self._size + grown
        return new

    def __getitem__(self, key: K) -> V:
        place = hash(key) % BUCKETS
        return self._rows[place // SIDE][place % SIDE][key]

    def __iter__(self) -> Iterator[K]:
        filled = [row for row in self._rows if row is not _EMPTY_ROW]
        return iter(sorted(chain.from_iterable(chain.from_iterable(filled))))

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"PMap({dict(self)!r})"
