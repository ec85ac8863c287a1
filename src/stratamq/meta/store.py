"""Where the Meta Service stores its state, a row for each entity. Here: RocksDB inside the node.
etcd will be a second one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from stratamq.log.disk import RealDisk, write_new
from stratamq.log.kv import KVStore, RocksKV, read_rows
from stratamq.meta.access import ACCESS_ROWS
from stratamq.meta.configs import CONFIG_ROWS
from stratamq.meta.evolve import Entity, entities, restored
from stratamq.meta.groups import GROUP_ROWS
from stratamq.meta.nodes import NODE_ROWS
from stratamq.meta.rows import RowFormat, dump, parse
from stratamq.meta.segments import SEGMENT_ROWS
from stratamq.meta.shards import SHARD_ROWS
from stratamq.meta.state import Event, MetaState, Put
from stratamq.meta.tier.files import TIER_ROWS
from stratamq.meta.topics import TOPIC_ROWS
from stratamq.meta.transactions import TRANSACTION_ROWS
from stratamq.model.errors import Closed, InvalidInput, StorageError

FORMAT_KEY = b"!format"
REVISION_KEY = b"!revision"
FORMAT_ROW = dump({"format": "stratamq meta"})
_FIRST_ENTITY = b'"'
"""Keys of entities come after the two that begin with `!`."""

FORMATS: dict[type, RowFormat] = {
    rows.kind: rows
    for rows in (
        *TOPIC_ROWS,
        *SHARD_ROWS,
        *SEGMENT_ROWS,
        *NODE_ROWS,
        *TIER_ROWS,
        *GROUP_ROWS,
        *TRANSACTION_ROWS,
        *ACCESS_ROWS,
        *CONFIG_ROWS,
    )
}
_BY_LETTER = {rows.letter: rows for rows in FORMATS.values()}

assert len(_BY_LETTER) == len(FORMATS), "two kinds of rows share a letter"


def row_key(entity: Entity) -> bytes:
    rows = FORMATS[type(entity)]
    return rows.letter + rows.key(entity)


def row_value(entity: Entity) -> bytes:
    return dump(FORMATS[type(entity)].fields(entity))


def entity_of(key: bytes, value: bytes) -> Entity:
    """The entity that was stored in a row; StorageError when the row is damaged."""
    fields = parse(key, value)
    try:
        entity: Entity = _BY_LETTER[key[:1]].entity(fields)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidInput) as error:
        raise StorageError(f"meta row {key!r} is damaged: {error!r}") from error
    return entity


class MetaStore(Protocol):
    """Synchronous; the service calls it from one thread at a time.

    After `write` the events survive a power cut, all of them; after a crash within it all or none
    of them are there. When it raises, which of the two is unknown until `open` is called again.
    """

    def open(self) -> MetaState:
        """Open, also again after a failed write, and read everything."""

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
            batch = kv.batch()
            batch.put(FORMAT_KEY, FORMAT_ROW)
            kv.write(batch, sync=True)
        parse(FORMAT_KEY, kv.get(FORMAT_KEY) or b"")
        revision = kv.get(REVISION_KEY)
        at = int(parse(REVISION_KEY, revision)["revision"]) if revision else 0
        return restored((entity_of(*row) for row in kv.scan(_FIRST_ENTITY, b"\xff")), at)

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


def read_state(path: Path) -> MetaState:
    """What the database of a RocksMetaStore holds, which a node may have open. Only reads."""
    rows = dict(read_rows(path))
    rows.pop(FORMAT_KEY, None)
    revision = rows.pop(REVISION_KEY, None)
    at = int(parse(REVISION_KEY, revision)["revision"]) if revision else 0
    return restored((entity_of(*row) for row in rows.items()), at)


# -- a state as a file: for a backup of a running node, since opening a RocksDB holds the GIL for
#    tens of milliseconds -------------------------------------------------------------------------

_LENGTHS = struct.Struct(">II")
"""Of key and value. Both follow, and then the next row."""


def write_rows(path: Path, state: MetaState) -> None:
    """All rows of a state, in a new file, synced."""
    rows = (_LENGTHS.pack(len(key), len(value)) + key + value for key, value in _rows(state))
    write_new(RealDisk(), path, b"".join(rows))


def _rows(state: MetaState) -> Iterator[tuple[bytes, bytes]]:
    yield FORMAT_KEY, FORMAT_ROW
    yield REVISION_KEY, dump({"revision": state.revision})
    for entity in entities(state):
        yield row_key(entity), row_value(entity)


def make_store(rows: Path, folder: Path) -> None:
    """The database of a RocksMetaStore in a new folder, from what `write_rows` wrote."""
    data, position, kv = rows.read_bytes(), 0, RocksKV(folder)
    try:
        batch = kv.batch()
        while position < len(data):
            of_key, of_value = _LENGTHS.unpack_from(data, position)
            middle = position + _LENGTHS.size + of_key
            batch.put(data[position + _LENGTHS.size : middle], data[middle : middle + of_value])
            position = middle + of_value
        kv.write(batch, sync=True)
    finally:
        kv.close()
