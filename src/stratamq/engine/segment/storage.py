"""EngineSegment's shards: a folder of segment files each, and one index store for all.

    {data_dir}/segments/{shard}/       segment files, see `stratamq.log.names`
    {data_dir}/segments/high-watermarks
    {data_dir}/index/                  RocksDB: can be deleted and is rebuilt from the logs
    {data_dir}/index-damaged/          the last index that could not be read; can be deleted

A commit writes to each shard's log, syncs all files that promise it together, and then writes the
index rows of all shards at once. How shards come and go: `stratamq.engine.segment.folders`.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path

from stratamq.engine.contract import ShardSpec
from stratamq.engine.group import Group
from stratamq.engine.layout import HIGH_WATERMARKS, INDEX_FOLDER, SEGMENTS_FOLDER
from stratamq.engine.limits import EngineLimits
from stratamq.engine.segment.disk_threads import FileRemover, SyncThreads
from stratamq.engine.segment.folders import (
    SHARD_NAME,
    FoundFolders,
    ShardFolders,
    as_storage_error,
)
from stratamq.engine.segment.high_watermarks import HighWatermarks
from stratamq.engine.segment.unsynced_files import UnsyncedFiles
from stratamq.engine.storage import OpenedStorage, StoredShard, each
from stratamq.log import names
from stratamq.log.contract import ShardStore, Step
from stratamq.log.disk import PRIVATE_FOLDER, Disk, File, RealDisk, storage_error
from stratamq.log.epochs import Unsaved, save_together
from stratamq.log.freeing import remove_tree
from stratamq.log.index import IndexStore
from stratamq.log.kv import KVBatch, KVStore, OpenKV, RocksKV, make_writable, patiently
from stratamq.log.shard_copy import OnBytes, ShardCopy, copy_bytes
from stratamq.log.shard_log import FileShardLog, delete_folder
from stratamq.model.counters import SECONDS, Durations
from stratamq.model.damage import report_damage
from stratamq.model.errors import (
    InvalidName,
    KVDamaged,
    ShardUnavailable,
    StorageError,
    StrataError,
    TooManyOpenFiles,
)
from stratamq.model.types import Offset, ShardName

INDEX_DAMAGED = "index-damaged"

WAVE_FILES_MAX = 256
"""Files that are written before they are synced together, or a quarter of `open_files_max` where
that is less. The others come after that: each takes a descriptor until it is synced."""

logger = logging.getLogger(__name__)

Stored = tuple[Group, FileShardLog, bool]
"""A group, the log of its shard, and whether that promises a sync."""


class SegmentStorage:
    """See ShardStorage for the contract."""

    def __init__(
        self,
        data_dir: Path,
        limits: EngineLimits,
        disk: Disk | None = None,
        open_kv: OpenKV = RocksKV,
    ) -> None:
        self._data_dir, self._root = data_dir, data_dir / SEGMENTS_FOLDER
        self._limits = limits
        remover, sync_threads = FileRemover(), SyncThreads()
        self._stores: dict[ShardName, FileShardLog] = {}
        self._unsynced = UnsyncedFiles(limits, self._stores)
        real = RealDisk(limits.open_files_max, remover.free_later, sync_threads.run, self._unsynced)
        self._disk: Disk = disk or real
        self._threads: tuple[FileRemover | SyncThreads, ...]
        self._threads = () if disk else (remover, sync_threads)
        """Only the machine's own disk has work for them."""
        self._wave_max = min(WAVE_FILES_MAX, max(limits.open_files_max // 4, 1))
        self._open_kv = partial(open_kv, data_dir / INDEX_FOLDER, close_unused=real.close_unused)
        self._folders = ShardFolders(self._disk, self._root)
        self._kv: KVStore
        self._index_is_aside = False
        self.syncs, self._counting = Durations(), threading.Lock()
        """Of commits that promise a sync: from the first write to the last sync."""
        self._watermarks = HighWatermarks(self._disk, self._root / HIGH_WATERMARKS)

    def open(self) -> OpenedStorage:
        """The index is derived: one that is damaged is set aside and rebuilt from the logs. When it
        fails, nothing stays open."""
        for threads in self._threads:
            threads.start()
        try:
            self._disk.make_folder(self._root)
            self._disk.sync_folder(self._data_dir)
            self._marks = self._watermarks.load()
            self._finish_deletions()
            opened = self._open_unless_damaged()
            if opened is None:
                self._set_index_aside()
                opened = self._open_with_index()
            return opened
        except BaseException as error:
            self._end_threads()
            if isinstance(error, OSError):
                raise StorageError(f"{self._root} cannot be read: {error}") from error
            raise

    def _finish_deletions(self) -> None:
        """A crash cut them off. Before the index is opened, which may need their space; their rows
        are dropped with those of all names that no shard has. Where it fails, the next start tries
        again."""
        for folder in self._folders.deleted():
            try:
                self._disk.remove_folder(folder)
            except OSError as error:
                logger.error("%s could not be removed: %s", folder, error)
        self._disk.sync_folder(self._root)

    def _open_unless_damaged(self) -> OpenedStorage | None:
        """None when the index is damaged. A function of its own: while an error is being handled,
        its traceback holds cursors of the store, which stays locked as long."""
        try:
            return self._open_with_index()
        except KVDamaged as error:
            report_damage(f"{error}; the index is rebuilt from the logs")
            return None

    def begin_index(self) -> bool:
        """May be repeated after a failure: an index that was set aside already stays there. None
        is while a scan holds the old one open: it would write into the folder of the new one."""
        self._stores.clear()
        with suppress(StorageError):
            self._kv.close()
        if not self._index_is_aside:
            self._set_index_aside()
            self._index_is_aside = True
        self._kv = patiently(self._open_kv)
        self._indexes = IndexStore(self._kv)
        self._index_is_aside = False
        return True

    def _open_with_index(self) -> OpenedStorage:
        self._stores.clear()
        self._kv = patiently(self._open_kv)
        try:
            self._indexes = IndexStore(self._kv)
            return self._open_all()
        except BaseException:
            self._kv.close()  # or it would stay locked until the process ends
            raise

    def _open_all(self) -> OpenedStorage:
        found = self._folders.find(self._can_wait if self._has_many() else lambda name: False)
        self._report_strays(found)
        known = {*found.unread, *(spec.name for spec in found.specs), *found.unavailable}
        self._drop_rows_except(known)
        kept, unavailable = [], dict(found.unavailable)
        for spec in found.specs:
            try:
                kept.append(self._kept(spec))
            except KVDamaged:
                raise
            except (OSError, StrataError) as error:
                unavailable[spec.name] = str(error)
        return OpenedStorage(kept, unavailable, found.unread, self._open_later)

    def _has_many(self) -> bool:
        return len(self._disk.names(self._root)) > self._limits.shards_opened_first_max

    def _can_wait(self, name: ShardName) -> bool:
        """Whether opening the shard is short: everything in its newest segment was synced, so that
        there is nothing to scan. A file that is missing is a matter for its opening."""
        state = self._indexes.known_state(name)
        if state is None or state.synced_position != state.indexed_position:
            return False
        file = names.segment_file(state.segment, names.LOG)
        try:
            return self._disk.size(Path(f"{self._root}/{name}/{file}")) == state.synced_position
        except OSError:
            return False

    def _open_later(self, name: ShardName) -> StoredShard | None:
        found = self._folders.look_into(name)
        self._report_strays(found)
        if (reason := found.unavailable.get(name)) is not None:
            raise ShardUnavailable(reason)
        return self._kept(found.specs[0]) if found.specs else None

    def _report_strays(self, found: FoundFolders) -> None:
        for stray in found.strays:
            report_damage(f"{self._root / stray}: no shard has this name; left as it is")

    def _drop_rows_except(self, known: Set[ShardName]) -> None:
        """Rows of shards that are gone do no harm: a full disk keeps them until the next start."""
        for orphan in [name for name in self._indexes.names() if name not in known]:
            try:
                self._indexes.drop(orphan)
            except KVDamaged:
                raise
            except StrataError as error:
                logger.error("the index rows of %s could not be removed: %s", orphan, error)

    def _kept(self, spec: ShardSpec) -> StoredShard:
        return StoredShard(spec, self._open_store(spec), self._marks.get(spec.name))

    def _set_index_aside(self) -> None:
        """Keep the damaged one for inspection, and no more than one."""
        index, aside = self._data_dir / INDEX_FOLDER, self._data_dir / INDEX_DAMAGED
        try:
            if self._disk.is_folder(aside):
                self._disk.remove_folder(aside)
            else:
                self._disk.unlink(aside)  # a plain file can be in the place of the index
            self._disk.rename(index, aside)
            self._disk.sync_folder(self._data_dir)
        except OSError as error:
            raise StorageError(f"{index} could not be set aside: {error}") from error

    def is_durable(self, spec: ShardSpec) -> bool:
        return True

    def is_stored(self, spec: ShardSpec) -> bool:
        try:
            return self._disk.exists(self._folders.of(spec.name))
        except OSError:
            return True  # nobody knows

    def create(self, specs: Sequence[ShardSpec]) -> Sequence[ShardStore]:
        for spec in specs:
            if not SHARD_NAME.fullmatch(spec.name) or spec.name.startswith("."):
                raise InvalidName(f"a shard cannot be called {spec.name!r}")
        try:
            left = self._folders.check_free(specs)
        except OSError as error:
            raise as_storage_error(error) from error
        try:
            stores = self._make(specs, left)
        except Exception as error:
            self._folders.unmake(specs)
            raise as_storage_error(error) from error
        self._stores.update({spec.name: store for spec, store in zip(specs, stores, strict=True)})
        return stores

    def _make(self, specs: Sequence[ShardSpec], left: Sequence[Path]) -> list[FileShardLog]:
        for spec in specs:
            self._indexes.drop(spec.name)  # whatever a creation that failed has left
        self._folders.make(specs, left)
        self._indexes.add(spec.name for spec in specs)
        stores = [self._log(spec, fresh=True) for spec in specs]
        for start in range(0, len(specs), self._wave_max):
            self._folders.confirm(specs[start : start + self._wave_max])
        for store in stores:
            store.names_are_durable()
        return stores

    def configure(self, spec: ShardSpec, store: ShardStore) -> None:
        self._folders.save(spec)
        self._stores[spec.name].configure(spec.config)

    def reopen(self, spec: ShardSpec, store: ShardStore) -> ShardStore:
        """The index may be what failed, and a log cannot be opened without it."""
        make_writable(self._kv)
        if not self._disk.exists(self._folders.of(spec.name)):
            raise ShardUnavailable(f"{self._folders.of(spec.name)} is missing")
        return self._open_store(spec)

    def retry(self, spec: ShardSpec, *, repair: bool) -> StoredShard:
        try:
            return self._kept(self._folders.spec_of(spec, repair=repair))
        except OSError as error:
            raise ShardUnavailable(f"{self._folders.of(spec.name)}: {error}") from error

    def discard(self, name: ShardName) -> None:
        folder = self._folders.of(name)
        if not self._disk.exists(folder):
            return
        try:
            delete_folder(self._disk, folder, name, self._indexes)
        except OSError as error:
            raise as_storage_error(error) from error

    def destroy(self, spec: ShardSpec, store: ShardStore) -> None:
        """Not by the store itself: the index may have been rebuilt since it was opened."""
        try:
            delete_folder(self._disk, self._folders.of(spec.name), spec.name, self._indexes)
            self._folders.forget(spec.name)
        except OSError as error:
            raise as_storage_error(error) from error
        _ours(store).poison("it was deleted")
        self._stores.pop(spec.name, None)
        self._unsynced.forget(spec.name)

    def commit(self, groups: Sequence[Group], *, waits: bool = True) -> Step | None:
        """Write the batches of all shards, sync their files together, and write the index rows of
        all of them at once."""
        stored = self._store(groups, waits=waits)
        rows = self._kv.batch()
        some = False
        for group, log, syncs in stored:
            if group.error is None and log.stage_index(rows, durable=syncs):
                some = True
        left: Step | None = None
        if some:
            write = partial(self._write_rows, rows, stored)
            if waits:
                write()
                return None
            try:
                left = None if self._kv.write_at_once(rows) else write
            except StrataError:
                left = write
        if not waits and len(self._unsynced.lanes[groups[0].shard.lane]) > self._unsynced.lane_max:
            return partial(self._finish, left, groups)
        return left

    def _finish(self, left: Step | None, groups: Sequence[Group]) -> None:
        """After a commit by the event loop, which opened no file but may have written to more
        files than may have unsynced writes."""
        if left is not None:
            left()
        unsynced = self._unsynced
        unsynced.close_oldest(self._disk, groups[0].shard.lane, unsynced.lane_max, groups)

    def _write_rows(self, rows: KVBatch, stored: Sequence[Stored]) -> None:
        try:
            self._kv.write(rows)
        except StrataError as error:
            for group, log, _ in stored:
                group.error = group.error or log.poison(f"its index could not be written: {error}")

    def _store(self, groups: Sequence[Group], *, waits: bool) -> list[Stored]:
        """Write the batches, and sync them where promised. What fails is the `error` of its group.
        A group that is alone has both in one call to the disk."""
        alone, syncs, began = len(groups) == 1, False, time.perf_counter()
        if not alone:
            self._save_epochs(groups)
        stored: list[Stored] = []
        unsynced: list[Stored] = []
        for group in groups:
            if not group.batches:
                continue
            shard = group.shard
            log, durable = self._stores[shard.name], alone and shard.syncs
            syncs = syncs or shard.syncs
            holding = self._unsynced.lanes[shard.lane]
            if not durable and shard.name not in holding:
                full = waits and len(holding) >= self._unsynced.lane_max
                if len(unsynced) == self._wave_max or (full and unsynced):
                    self._sync(unsynced)
                elif full:
                    kept_max = self._unsynced.lane_max - 1
                    self._unsynced.close_oldest(self._disk, shard.lane, kept_max, groups)
                holding[shard.name] = shard
            try:
                log.append(group.batches, durable=durable)
            except TooManyOpenFiles as error:
                group.error = self._append_again(group, log, groups, unsynced) if waits else error
            except StrataError as error:
                group.error = error
            if group.error is None:
                stored.append((group, log, shard.syncs))
                if shard.syncs and not alone:
                    unsynced.append(stored[-1])
        if unsynced:
            self._sync(unsynced)
        if syncs:
            took_s = time.perf_counter() - began
            with self._counting:
                self.syncs.total_s += took_s
                self.syncs.counts[bisect_left(SECONDS, took_s)] += 1
        return stored

    def _append_again(
        self, group: Group, log: FileShardLog, groups: Sequence[Group], unsynced: list[Stored]
    ) -> StrataError | None:
        """Where no descriptor was left: after the files of this commit are synced early, or all
        that the lane holds. The error, if it fails again."""
        if unsynced:
            self._sync(unsynced)
        else:
            self._unsynced.close_oldest(self._disk, group.shard.lane, 0, groups)
        try:
            log.append(group.batches, durable=group.shard.syncs and len(groups) == 1)
        except StrataError as error:
            return error
        return None

    def _save_epochs(self, groups: Sequence[Group]) -> None:
        """A shard's first batch under a new leader is written after that epoch is durable. `append`
        sees to it; shards that begin at the same time share the syncs."""
        unsaved: list[Unsaved] = []
        for group in groups:
            if group.batches:
                one = self._stores[group.shard.name].unsaved_epochs(group.batches)
                if one is not None:
                    unsaved.append(one)
        if len(unsaved) > 1:
            for start in range(0, len(unsaved), self._wave_max):
                save_together(self._disk, unsaved[start : start + self._wave_max])

    def _sync(self, unsynced: list[Stored]) -> None:
        """Sync the files of these shards together. One that fails is the trouble of its shard."""
        waiting: list[Stored] = []
        files: list[File] = []
        for one in unsynced:
            shard = one[0].shard
            self._unsynced.lanes[shard.lane].pop(shard.name, None)
            file = one[1].unsynced()
            if file is not None:
                waiting.append(one)
                files.append(file)
        unsynced.clear()
        for (group, log, _), error in zip(waiting, self._disk.sync_all(files), strict=True):
            try:
                log.end_sync(error)
            except StrataError as failure:
                group.error = failure

    def copy_index(self, target: Path) -> None:
        try:
            target.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
            self._kv.copy_to(target / INDEX_FOLDER)
        except (OSError, StrataError) as error:
            logger.warning("the index is not in the backup, and is rebuilt: %s", error)
            remove_tree(target / INDEX_FOLDER)

    def copy_of(self, store: ShardStore, target: Path, end: Offset) -> ShardCopy:
        log = _ours(store)
        return log.copy_to(target / SEGMENTS_FOLDER / log.name, end)

    def copy_rest(self, target: Path, ends: Mapping[ShardName, Offset], on_bytes: OnBytes) -> None:
        """Shards that cannot be opened, as they are."""
        for name in ends:
            folder = self._folders.of(name)
            if name not in self._stores and self._disk.is_folder(folder):
                copied = target / SEGMENTS_FOLDER / name
                copied.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
                for file in self._disk.names(folder):
                    if self._disk.is_file(folder / file):
                        size = self._disk.size(folder / file)
                        copy_bytes(self._disk.open(folder / file), size, copied / file, on_bytes)

    def save_high_watermarks(self, marks: Mapping[ShardName, Offset]) -> None:
        try:
            self._watermarks.save(marks, lambda name: self._disk.exists(self._folders.of(name)))
        except OSError as error:
            raise storage_error("high watermarks", error) from error

    def close(self) -> None:
        """Everything, also where a store fails: that is raised at the end."""
        stores = list(self._stores.values())
        self._stores.clear()
        try:
            each(stores, lambda store: store.close())
        finally:
            self._end_threads()
            self._kv.close()

    def _end_threads(self) -> None:
        for threads in self._threads:
            threads.close()

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
            first_leader_implied=self._folders.first_leader_implied(spec.name),
        )


def _ours(store: ShardStore) -> FileShardLog:
    assert isinstance(store, FileShardLog), "every store here was created here"
    return store
