"""EngineSegment's shards: a folder of segment files each, and one index store for all.

    {data_dir}/segments/{shard}/       segment files, see `stratamq.log.names`
    {data_dir}/segments/high-watermarks
    {data_dir}/index/                  RocksDB: can be deleted and is rebuilt from the logs

A commit writes to each shard's log, syncs each that promises it, and then writes the index rows of
all of them at once. A shard exists when its `shard.json` does: it is written last at creation, and
renamed away with its folder, first, at deletion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from stratamq.engine.contract import ShardSpec
from stratamq.engine.group import Group
from stratamq.engine.keeper import Kept
from stratamq.engine.limits import EngineLimits
from stratamq.log import names
from stratamq.log.contract import ShardStore
from stratamq.log.disk import Disk, RealDisk, read_all, replace_file
from stratamq.log.index import IndexStore
from stratamq.log.kv import RocksKV
from stratamq.log.shard_log import FileShardLog, finish_destroy
from stratamq.model.errors import InvalidName, StrataError
from stratamq.model.topic import TopicConfig
from stratamq.model.types import Offset, ShardName

SEGMENTS_FOLDER = "segments"
INDEX_FOLDER = "index"
HIGH_WATERMARKS = "high-watermarks"
SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


class SegmentKeeper:
    """See Keeper for the contract."""

    def __init__(self, data_dir: Path, limits: EngineLimits, disk: Disk | None = None) -> None:
        self._root = data_dir / SEGMENTS_FOLDER
        self._index_path = data_dir / INDEX_FOLDER
        self._limits = limits
        self._disk: Disk = disk or RealDisk(limits.open_files_max)
        self._stores: dict[ShardName, FileShardLog] = {}
        self._watermarks: dict[ShardName, Offset] = {}

    def open(self) -> Sequence[Kept]:
        self._disk.make_folder(self._root)
        self._kv = RocksKV(self._index_path)
        self._indexes = IndexStore(self._kv)
        self._watermarks = marks = self._saved_watermarks()
        specs = [spec for folder in self._folders() if (spec := self._load_spec(folder))]
        known = {spec.name for spec in specs}
        for orphan in [name for name in self._indexes.names() if name not in known]:
            self._indexes.drop(orphan)
        return [Kept(spec, self._open_store(spec), marks.get(spec.name)) for spec in specs]

    def create(self, spec: ShardSpec) -> ShardStore:
        if not SAFE_NAME.fullmatch(spec.name) or spec.name.startswith("."):
            raise InvalidName(f"a shard cannot be called {spec.name!r}")
        store = self._open_store(spec)
        self._save_spec(spec)
        self._disk.sync_folder(self._root)
        return store

    def configure(self, spec: ShardSpec, store: ShardStore) -> None:
        self._save_spec(spec)
        self._stores[spec.name].config = spec.config

    def reopen(self, spec: ShardSpec, store: ShardStore) -> ShardStore:
        return self._open_store(spec)

    def destroy(self, spec: ShardSpec, store: ShardStore) -> None:
        del self._stores[spec.name]
        store.destroy()

    def commit(self, groups: Sequence[Group]) -> None:
        stored = [group for group in groups if group.batches and _stored(group)]
        if not stored:
            return
        rows = self._kv.batch()
        logs = [self._stores[group.shard.name] for group in stored]
        for log in logs:
            log.stage_index(rows)
        try:
            self._kv.write(rows)
        except StrataError as error:
            for group, log in zip(stored, logs, strict=True):
                group.error = log.poison(f"its index could not be written: {error}")

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
        self._kv.close()

    # -- folders and specs ---------------------------------------------------------------------

    def _folders(self) -> list[Path]:
        """Folders of living shards. Deletions that a crash cut off are finished on the way."""
        living: list[Path] = []
        for name in sorted(self._disk.names(self._root)):
            path = self._root / name
            if name.endswith(names.GONE):
                shard = ShardName(name.removesuffix(names.GONE))
                finish_destroy(self._disk, path, shard, self._indexes)
            elif name.removesuffix(names.TEMPORARY) != HIGH_WATERMARKS:
                living.append(path)
        return living

    def _load_spec(self, folder: Path) -> ShardSpec | None:
        """None, and the folder is removed, where a creation never got to its end."""
        path = folder / names.SPEC
        if not self._disk.exists(path):
            self._disk.remove_folder(folder)
            return None
        fields = json.loads(read_all(self._disk, path))
        return ShardSpec(
            name=ShardName(fields["name"]),
            config=TopicConfig.of(fields["config"]),
            replicated=fields["replicated"],
        )

    def _save_spec(self, spec: ShardSpec) -> None:
        fields = {
            "name": spec.name,
            "config": dict(spec.config.given),
            "replicated": spec.replicated,
        }
        data = json.dumps(fields, indent=2).encode() + b"\n"
        replace_file(self._disk, self._root / spec.name / names.SPEC, data)

    def _open_store(self, spec: ShardSpec) -> FileShardLog:
        store = FileShardLog(
            self._disk,
            self._root / spec.name,
            spec.name,
            self._indexes,
            spec.config,
            self._limits.decompressed_bytes_max,
        )
        self._stores[spec.name] = store
        return store

    def _saved_watermarks(self) -> dict[ShardName, Offset]:
        path = self._root / HIGH_WATERMARKS
        if not self._disk.exists(path):
            return {}
        pairs = (line.split(" ") for line in read_all(self._disk, path).decode().splitlines())
        return {ShardName(name): Offset(int(offset)) for name, offset in pairs}


def _stored(group: Group) -> bool:
    """Write and, where promised, sync one shard's batches; whether it went well."""
    try:
        group.store.append(group.batches)
        if group.shard.syncs:
            group.store.sync()
    except StrataError as error:
        group.error = error
        return False
    return True
