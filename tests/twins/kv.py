"""A key-value store in memory that loses what was not synced, and fails when told to.

As RocksDB with one write-ahead log: batches are whole or not there, a sync is about everything
written before it, and a power cut takes the unsynced batches from some point on, never one in the
middle.

`before_write` is called with the batch's `sync` before every write and may raise: an error of the
store, or a crash that stops everything there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from random import Random

from stratamq.log.kv import KVBatch, RocksKV
from stratamq.model.errors import Closed

Row = tuple[bytes, bytes]
Change = tuple[str, bytes, bytes]


class Loss(StrEnum):
    """What a stop does to the batches that were not synced."""

    KILLED = "process killed: nothing is lost, nothing became durable"
    NOTHING = "power cut: all were written"
    SUFFIX = "power cut: lost from some point on"
    UNSYNCED = "power cut: all are lost"
    WIPED = "the whole store is gone"


class OrderedRows:
    """A map of bytes in key order."""

    def __init__(self, rows: dict[bytes, bytes] | None = None) -> None:
        self.values = dict(rows or {})
        self._keys = sorted(self.values)

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            insort(self._keys, key)
        self.values[key] = value

    def delete(self, key: bytes) -> None:
        if self.values.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def delete_range(self, begin: bytes, end: bytes) -> None:
        first, last = bisect_left(self._keys, begin), bisect_left(self._keys, end)
        for key in self._keys[first:last]:
            del self.values[key]
        self._keys[first:last] = []

    def between(self, begin: bytes, end: bytes) -> list[Row]:
        first, last = bisect_left(self._keys, begin), bisect_left(self._keys, end)
        return [(key, self.values[key]) for key in self._keys[first:last]]

    def apply(self, changes: list[Change]) -> None:
        for kind, key, other in changes:
            if kind == "put":
                self.put(key, other)
            elif kind == "delete":
                self.delete(key)
            else:
                self.delete_range(key, other)


class SimBatch:
    def __init__(self) -> None:
        self.changes: list[Change] = []

    def __len__(self) -> int:
        return len(self.changes)

    def put(self, key: bytes, value: bytes) -> None:
        self.changes.append(("put", bytes(key), bytes(value)))

    def put_all(self, rows: Iterable[Row]) -> None:
        self.changes += [("put", key, value) for key, value in rows]

    def delete(self, key: bytes) -> None:
        self.changes.append(("delete", bytes(key), b""))

    def delete_range(self, begin: bytes, end: bytes) -> None:
        self.changes.append(("delete_range", bytes(begin), bytes(end)))


class SimKV:
    """KVStore; see the module."""

    def __init__(self, rows: dict[bytes, bytes] | None = None) -> None:
        self._rows = OrderedRows(rows)
        self._durable = OrderedRows(rows)
        self._pending: list[list[Change]] = []
        self._closed = False
        self.before_write: Callable[[bool], None] = lambda sync: None
        self.on_reopen: Callable[[], None] = lambda: None

    def get(self, key: bytes) -> bytes | None:
        self._check_open()
        return self._rows.values.get(key)

    def scan(self, begin: bytes, end: bytes) -> Iterator[Row]:
        self._check_open()
        yield from self._rows.between(begin, end)

    def scan_back(self, begin: bytes, end: bytes) -> Iterator[Row]:
        self._check_open()
        yield from reversed(self._rows.between(begin, end))

    def batch(self) -> SimBatch:
        return SimBatch()

    def write(self, batch: KVBatch, *, sync: bool = False) -> None:
        self._check_open()
        assert isinstance(batch, SimBatch), "a batch is written by the store that made it"
        self.before_write(sync)
        self._rows.apply(batch.changes)
        self._pending.append(list(batch.changes))
        if sync:
            self._sync()

    def write_at_once(self, batch: KVBatch) -> bool:
        self.write(batch)
        return True

    def copy_to(self, folder: Path) -> None:
        """A backup is made of real files."""
        kv = RocksKV(folder)
        rows = kv.batch()
        rows.put_all(self.rows().items())
        kv.write(rows, sync=True)
        kv.close()

    def reopen(self) -> None:
        """The disk holds what was written; only what a sync promised is more than that."""
        self.on_reopen()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._sync()

    def rows(self) -> dict[bytes, bytes]:
        """Everything, in order, for tests that look inside."""
        return dict(sorted(self._rows.values.items()))

    def copy(self) -> SimKV:
        """Another store in the same state, synced and unsynced."""
        other = SimKV(self._durable.values)
        for changes in self._pending:
            other._rows.apply(changes)
        other._pending = [list(changes) for changes in self._pending]
        return other

    def after_crash(self, loss: Loss, rng: Random) -> SimKV:
        """The store as the next process finds it. This one stays as it is."""
        if loss is Loss.KILLED:
            return self.copy()
        if loss is Loss.WIPED:
            return SimKV()
        kept = {Loss.NOTHING: len(self._pending), Loss.UNSYNCED: 0}.get(loss)
        found = OrderedRows(self._durable.values)
        for changes in self._pending[
            : rng.randint(0, len(self._pending)) if kept is None else kept
        ]:
            found.apply(changes)
        return SimKV(found.values)

    def _sync(self) -> None:
        for changes in self._pending:
            self._durable.apply(changes)
        self._pending.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the key-value store is closed")
