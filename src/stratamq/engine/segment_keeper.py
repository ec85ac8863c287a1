"""EngineSegment's shards: a folder of segment files each, and one index store for all.

    {data_dir}/segments/{shard}/       segment files, see `stratamq.log.names`
    {data_dir}/segments/high-watermarks
    {data_dir}/index/                  RocksDB: can be deleted and is rebuilt from the logs

A commit writes to each shard's log, syncs each that promises it, and then writes the index rows of
all of them at once. How shards come and go: `stratamq.engine.shard_folders`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from stratamq.engine.contract import ShardSpec
from stratamq.engine.file_remover import FileRemover
from stratamq.engine.group import Group
from stratamq.engine.keeper import Kept
from stratamq.engine.limits import EngineLimits
from stratamq.engine.shard_folders import HIGH_WATERMARKS, ShardFolders, one_by_one, together, told
from stratamq.log.contract import ShardStore
from stratamq.log.disk import Disk, RealDisk, read_all, replace_file
from stratamq.log.index import IndexStore
from stratamq.log.kv import KVBatch, KVStore, RocksKV, make_writable
from stratamq.log.shard_log import FileShardLog, finish_destroy
from stratamq.model.errors import InvalidName, StrataError
from stratamq.model.types import Offset, ShardName

SEGMENTS_FOLDER = "segments"
INDEX_FOLDER = "index"
SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


class SegmentKeeper:
    """See Keeper for the contract."""

    def __init__(
        self,
        data_dir: Path,
        limits: EngineLimits,
        disk: Disk | None = None,
        open_kv: Callable[[], KVStore] | None = None,
    ) -> None:
        self._root = data_dir / SEGMENTS_FOLDER
        self._limits = limits
        self._remover = FileRemover()
        real = RealDisk(limits.open_files_max, self._remover.free_later)
        self._disk: Disk = disk or real
        self._open_kv = open_kv or partial(
            RocksKV, data_dir / INDEX_FOLDER, close_unused=real.close_unused
        )
        sync_all = together if disk is None else one_by_one
        self._folders = ShardFolders(self._disk, self._root, sync_all)
        self._stores: dict[ShardName, FileShardLog] = {}
        self._empty: list[KVBatch] = []
        self._watermarks: dict[ShardName, Offset] = {}

    def open(self) -> Sequence[Kept]:
        self._remover.start()
        self._disk.make_folder(self._root)
        self._kv = self._open_kv()
        self._indexes = IndexStore(self._kv)
        self._watermarks = marks = self._saved_watermarks()
        for folder, name in self._folders.deleted():  # a crash cut it off
            finish_destroy(self._disk, folder, name, self._indexes)
        specs = self._folders.specs()
        known = {spec.name for spec in specs}
        for orphan in [name for name in self._indexes.names() if name not in known]:
            self._indexes.drop(orphan)
        return [Kept(spec, self._open_store(spec), marks.get(spec.name)) for spec in specs]

    def create(self, specs: Sequence[ShardSpec]) -> Sequence[ShardStore]:
        for spec in specs:
            if not SAFE_NAME.fullmatch(spec.name) or spec.name.startswith("."):
                raise InvalidName(f"a shard cannot be called {spec.name!r}")
        try:
            stores = self._make(specs)
        except Exception as error:
            self._folders.unmake(specs)
            raise told(error) from error
        self._stores.update({spec.name: store for spec, store in zip(specs, stores, strict=True)})
        return stores

    def _make(self, specs: Sequence[ShardSpec]) -> list[FileShardLog]:
        for spec in specs:
            self._indexes.drop(spec.name)  # whatever a creation that failed has left
        self._folders.make(specs)
        stores = [self._log(spec, fresh=True) for spec in specs]
        self._folders.confirm(specs)
        for store in stores:
            store.names_are_durable()
        return stores

    def configure(self, spec: ShardSpec, store: ShardStore) -> None:
        self._folders.save(spec)
        self._stores[spec.name].config = spec.config

    def reopen(self, spec: ShardSpec, store: ShardStore) -> ShardStore:
        """The index may be what failed, and a log cannot be opened without it."""
        self._empty.clear()
        make_writable(self._kv)
        return self._open_store(spec)

    def destroy(self, spec: ShardSpec, store: ShardStore) -> None:
        store.destroy()
        self._stores.pop(spec.name, None)

    def commit(self, groups: Sequence[Group]) -> None:
        stored = [group for group in groups if group.batches and self._stored(group)]
        if not stored:
            return
        rows = self._batch()
        logs = [self._stores[group.shard.name] for group in stored]
        for group, log in zip(stored, logs, strict=True):
            log.stage_index(rows, durable=group.shard.syncs)
        if not len(rows):
            self._empty.append(rows)
            return
        try:
            self._kv.write(rows)
        except StrataError as error:
            for group, log in zip(stored, logs, strict=True):
                group.error = log.poison(f"its index could not be written: {error}")

    def _batch(self) -> KVBatch:
        """One that nothing was put into, where there is one: most commits have nothing to say, and
        making one costs as much as the rest of such a commit."""
        try:
            return self._empty.pop()
        except IndexError:
            return self._kv.batch()

    def _stored(self, group: Group) -> bool:
        """Write and, where promised, sync one shard's batches; whether it went well."""
        try:
            self._stores[group.shard.name].append(group.batches, durable=group.shard.syncs)
        except StrataError as error:
            group.error = error
            return False
        return True

    def save_high_watermarks(self, marks: Mapping[ShardName, Offset]) -> None:
        self._watermarks.update(marks)
        kept = sorted(
            (name, mark) for name, mark in self._watermarks.items() if name in self._stores
        )
        lines = "".join(f"{name} {offset}\n" for name, offset in kept)
        replace_file(self._disk, self._root / HIGH_WATERMARKS, lines.encode())

    def close(self) -> None:
        for store in self._stores.values():
            store.close()
        self._stores.clear()
        self._empty.clear()
        self._kv.close()
        self._remover.close()

    # -- opening -------------------------------------------------------------------------------

    def _open_store(self, spec: ShardSpec) -> FileShardLog:
        self._stores[spec.name] = store = self._log(spec)
        return store

    def _log(self, spec: ShardSpec, *, fresh: bool = False) -> FileShardLog:
        return FileShardLog(
            self._disk,
            self._folders.of(spec.name),
            spec.name,
            self._indexes,
            spec.config,
            self._limits.decompressed_bytes_max,
            fresh=fresh,
            follows=spec.replicated,
        )

    def _saved_watermarks(self) -> dict[ShardName, Offset]:
        path = self._root / HIGH_WATERMARKS
        if not self._disk.exists(path):
            return {}
        pairs = (line.split(" ") for line in read_all(self._disk, path).decode().splitlines())
        return {ShardName(name): Offset(int(offset)) for name, offset in pairs}
