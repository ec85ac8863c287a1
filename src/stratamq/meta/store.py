"""Where the Meta Service keeps its state. Here: RocksDB inside the node. etcd will be a second
one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from stratamq.log.kv import KVStore, RocksKV
from stratamq.meta.entities import Entity
from stratamq.meta.events import Event, Put
from stratamq.meta.rows import (
    FORMAT_KEY,
    REVISION_KEY,
    dump,
    entity_of,
    parse,
    row_key,
    row_value,
)
from stratamq.meta.state import MetaState, restored
from stratamq.model.errors import Closed


class MetaStore(Protocol):
    """Synchronous; the service calls it from one thread at a time.

    After `write` the events survive a power cut, all of them; after a crash within it all or none
    of them are there. When it raises, which of the two is unknown until `open` is called again.
    """

    def open(self) -> MetaState:
        """Open, or open anew after a failed write, and read everything."""

    def write(self, events: Sequence[Event], revision: int) -> None: ...

    def close(self) -> None: ...


class KVMetaStore:
    """MetaStore on an ordered key-value store: a row for each entity, one batch for each write."""

    def __init__(self, connect: Callable[[], KVStore]) -> None:
        self._connect = connect
        self._kv: KVStore | None = None

    def open(self) -> MetaState:
        self.close()
        kv = self._kv = self._connect()
        if kv.get(FORMAT_KEY) is None:
            self._write_format(kv)
        parse(FORMAT_KEY, kv.get(FORMAT_KEY) or b"")
        revision = kv.get(REVISION_KEY)
        at = int(parse(REVISION_KEY, revision)["revision"]) if revision else 0
        return restored(_entities(kv), at)

    def _write_format(self, kv: KVStore) -> None:
        batch = kv.batch()
        batch.put(FORMAT_KEY, dump({"format": "stratamq meta"}))
        kv.write(batch, sync=True)

    def write(self, events: Sequence[Event], revision: int) -> None:
        if self._kv is None:
            raise Closed("the meta store is closed")
        batch = self._kv.batch()
        for event in events:
            if isinstance(event, Put):
                batch.put(row_key(event.entity), row_value(event.entity))
            else:
                batch.delete(row_key(event.entity))
        batch.put(REVISION_KEY, dump({"revision": revision}))
        self._kv.write(batch, sync=True)

    def close(self) -> None:
        kv, self._kv = self._kv, None
        if kv is not None:
            kv.close()


class RocksMetaStore(KVMetaStore):
    """KVMetaStore in a RocksDB of its own. A damaged one is refused before anything is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: RocksKV(path, check_rows=True))


def _entities(kv: KVStore) -> Iterator[Entity]:
    """Everything behind the rows that start with `!`."""
    for key, value in kv.scan(b'"', b"\xff"):
        yield entity_of(key, value)
