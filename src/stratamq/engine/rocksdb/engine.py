"""EngineRocksDB: everything in one embedded key-value store, for a single node."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from stratamq.engine.contract import ShardSpec
from stratamq.engine.engine import StorageEngine
from stratamq.engine.group import Group
from stratamq.engine.layout import ROCKSDB_FOLDER
from stratamq.engine.limits import EngineLimits
from stratamq.engine.pool import IOPool
from stratamq.engine.rocksdb.rows import ShardRows
from stratamq.engine.rocksdb.store import RocksShardStore, Staged
from stratamq.engine.rocksdb.table import ShardTable
from stratamq.engine.storage import OpenedStorage, StoredShard
from stratamq.log.contract import ShardStore
from stratamq.log.disk import PRIVATE_FOLDER, RealDisk, write_new
from stratamq.log.kv import KVStore, OpenKV, RocksKV, make_writable, sync_all
from stratamq.log.shard_copy import OnBytes
from stratamq.model.clock import Clock, SystemClock
from stratamq.model.damage import report_damage
from stratamq.model.errors import (
    KVDamaged,
    OutOfResources,
    ShardUnavailable,
    StorageError,
    StrataError,
)
from stratamq.model.types import Offset, ShardName

COLUMN_FAMILY = "broker"

ENDS_FILE = "rocksdb-ends.json"
"""In a backup: where the logs of the copied store are to end."""


class RocksStorage:
    """Keeps shards as rows. One write, and one sync, commits whatever a drain brought to all of
    them."""

    def __init__(self, open_kv: Callable[[], KVStore], clock: Clock) -> None:
        self._open_kv, self._clock = open_kv, clock

    def open(self) -> OpenedStorage:
        try:
            self._kv = self._open_kv()
        except KVDamaged as error:
            report_damage(f"{error}; the topics of EngineRocksDB are refused")
            raise
        try:
            self._table = ShardTable(self._kv)
            return self._open_all()
        except BaseException:
            self._kv.close()  # or it would stay locked until the process ends
            raise

    def _open_all(self) -> OpenedStorage:
        """Damage in the rows of one shard is that shard's."""
        kept, unavailable = [], {}
        for name in self._table.names():
            try:
                kept.append(self._kept(name))
            except StrataError as error:
                unavailable[name] = str(error)
        return OpenedStorage(kept, unavailable)

    def _kept(self, name: ShardName) -> StoredShard:
        spec, mark = self._table.load(name)
        return StoredShard(spec, self._store(spec, self._table.rows(name)), mark)

    def is_durable(self, spec: ShardSpec) -> bool:
        return True

    def is_stored(self, spec: ShardSpec) -> bool:
        return True  # RocksDB finds out by itself

    def create(self, specs: Sequence[ShardSpec]) -> Sequence[ShardStore]:
        added = zip(specs, self._table.add(specs), strict=True)
        return [self._store(spec, rows) for spec, rows in added]

    def _store(self, spec: ShardSpec, rows: ShardRows) -> RocksShardStore:
        return RocksShardStore(spec.name, rows, spec.config, self._clock)

    def configure(self, spec: ShardSpec, store: ShardStore) -> None:
        self._table.save(spec)
        _ours(store).config = spec.config

    def reopen(self, spec: ShardSpec, store: ShardStore) -> ShardStore:
        """The rows say what was stored, once they can be written again."""
        make_writable(self._kv)
        return self._store(spec, self._table.rows(spec.name))

    def retry(self, spec: ShardSpec, *, repair: bool) -> StoredShard:
        if spec.name not in self._table.names():
            raise ShardUnavailable(f"the store in {ROCKSDB_FOLDER} has no rows of it")
        return self._kept(spec.name)

    def begin_index(self) -> bool:
        return False  # the rows are the records themselves

    def discard(self, name: ShardName) -> None:
        if name in self._table.names():
            self._table.remove(name)

    def destroy(self, spec: ShardSpec, store: ShardStore) -> None:
        self._table.remove(spec.name)
        store.destroy()

    def commit(self, groups: Sequence[Group], *, waits: bool = True) -> None:
        assert waits, "no store here takes batches at once"
        rows = self._kv.batch()
        staged: list[tuple[Group, RocksShardStore, Staged]] = []
        for group in groups:
            store = _ours(group.store)
            try:
                staged.append((group, store, store.stage(rows, group.batches)))
            except StrataError as error:
                group.error = error
        try:
            self._kv.write(rows, sync=any(group.shard.syncs for group, _, _ in staged))
        except OutOfResources as error:
            for group, _, _ in staged:
                group.error = error
        except StorageError as error:
            for group, store, _ in staged:
                group.error = store.poison(str(error))
        else:
            for _, store, stage in staged:
                store.settle(stage)

    def copy_index(self, target: Path) -> None:
        pass  # the rows are the records themselves

    def copy_of(self, store: ShardStore, target: Path, end: Offset) -> None:
        return None  # its rows are in one store with those of all others

    def copy_rest(self, target: Path, ends: Mapping[ShardName, Offset], on_bytes: OnBytes) -> None:
        """The store as it is now, and the ends beside it: `cut_copy` does the rest. Opening the
        copy here would hold the GIL for tens of milliseconds."""
        target.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        write_new(RealDisk(), target / ENDS_FILE, json.dumps(dict(ends)).encode())
        self._kv.copy_to(target / ROCKSDB_FOLDER)

    def save_high_watermarks(self, marks: Mapping[ShardName, Offset]) -> None:
        self._table.save_watermarks(marks)

    def close(self) -> None:
        try:
            sync_all(self._kv)
        finally:
            self._kv.close()


def cut_copy(data_dir: Path) -> None:
    """Cut the logs of a copied store that a backup has where they are to end, and remove shards
    that the backup does not have."""
    ends: Mapping[ShardName, Offset] = json.loads((data_dir / ENDS_FILE).read_bytes())
    copy = RocksStorage(lambda: RocksKV(data_dir / ROCKSDB_FOLDER, COLUMN_FAMILY), SystemClock())
    found = copy.open()
    try:
        for spec, store, _ in found.kept:
            if spec.name not in ends:
                copy.destroy(spec, store)
            elif store.end_offset > ends[spec.name]:
                store.truncate(ends[spec.name])
    finally:
        copy.close()
    (data_dir / ENDS_FILE).unlink()


class EngineRocksDB(StorageEngine):
    """Everything in `{data_dir}/rocksdb`, column family `broker`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        clock: Clock | None = None,
        limits: EngineLimits | None = None,
        open_kv: OpenKV = RocksKV,
        pool: Callable[..., IOPool] = IOPool,
    ) -> None:
        clock, limits = clock or SystemClock(), limits or EngineLimits()
        storage = RocksStorage(partial(open_kv, data_dir / ROCKSDB_FOLDER, COLUMN_FAMILY), clock)
        super().__init__(storage, pool(storage.commit, clock, limits), clock, limits)


def _ours(store: ShardStore) -> RocksShardStore:
    assert isinstance(store, RocksShardStore), "every store here was created here"
    return store
