"""The folders of EngineSegment's shards, and the `shard.json` that makes a folder a shard.

A shard exists when its `shard.json` does: it gets its name last at creation, and goes with its
folder, first, at deletion. Shards are made many at a time, step by step for all of them, and what
is synced is synced together: file systems write their journal once for all who wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from stratamq.engine.contract import ShardSpec
from stratamq.log import names
from stratamq.log.disk import Disk, File, read_all, replace_file, storage_error
from stratamq.model.topic import TopicConfig
from stratamq.model.types import ShardName

HIGH_WATERMARKS = "high-watermarks"
SYNC_THREADS = 16

Syncs = Sequence[Callable[[], None]]


def one_by_one(syncs: Syncs) -> None:
    for sync in syncs:
        sync()


def together(syncs: Syncs) -> None:
    """All have ended on return. The first failure is raised."""
    if len(syncs) == 1:
        one_by_one(syncs)
        return
    with ThreadPoolExecutor(SYNC_THREADS, "stratamq-sync") as threads:
        begun = [threads.submit(sync) for sync in syncs]
    for one in begun:
        one.result()


class ShardFolders:
    """Everything under one root. Errors are OSError, as the disk gives them."""

    def __init__(
        self, disk: Disk, root: Path, sync_all: Callable[[Syncs], None] = one_by_one
    ) -> None:
        self._disk, self.root, self._sync_all = disk, root, sync_all

    def of(self, name: ShardName) -> Path:
        return self.root / name

    # -- making --------------------------------------------------------------------------------

    def make(self, specs: Sequence[ShardSpec]) -> None:
        """Empty folders, for segments to be put into. A creation that failed may have left one."""
        for spec in specs:
            folder = self.of(spec.name)
            if self._disk.exists(folder):
                self._disk.remove_folder(folder)
            self._disk.make_folder(folder)

    def confirm(self, specs: Sequence[ShardSpec]) -> None:
        """The folders, and the names in them, are shards from now on: durable on return."""
        files = [self._write_spec(spec) for spec in specs]
        self._sync_all([file.sync for file in files])
        for path in (self.of(spec.name) / names.SPEC for spec in specs):
            self._disk.rename(_temporary(path), path)
        folders = [self.of(spec.name) for spec in specs]
        self._sync_all([partial(self._disk.sync_folder, folder) for folder in folders])
        self._disk.sync_folder(self.root)

    def _write_spec(self, spec: ShardSpec) -> File:
        file = self._disk.open(_temporary(self.of(spec.name) / names.SPEC), create=True)
        file.truncate(0)
        file.write([_encode(spec)], 0)
        return file

    def unmake(self, specs: Sequence[ShardSpec]) -> None:
        """A creation failed. What cannot be removed now goes when its name is wanted again."""
        for spec in specs:
            try:
                self._disk.unlink(self.of(spec.name) / names.SPEC)  # first: it is no shard
                self._disk.remove_folder(self.of(spec.name))
            except OSError:
                continue

    def save(self, spec: ShardSpec) -> None:
        """A changed spec."""
        replace_file(self._disk, self.of(spec.name) / names.SPEC, _encode(spec))

    # -- finding -------------------------------------------------------------------------------

    def deleted(self) -> list[tuple[Path, ShardName]]:
        """Folders on their way out, and whose they were."""
        return [
            (self.root / name, ShardName(name.removesuffix(names.GONE)))
            for name in sorted(self._disk.names(self.root))
            if name.endswith(names.GONE)
        ]

    def specs(self) -> list[ShardSpec]:
        """All living shards. A folder whose creation never got to its end is removed."""
        found: list[ShardSpec] = []
        for name in sorted(self._disk.names(self.root)):
            if name.endswith(names.GONE) or name.removesuffix(names.TEMPORARY) == HIGH_WATERMARKS:
                continue
            path = self.root / name / names.SPEC
            if self._disk.exists(path):
                found.append(_decode(read_all(self._disk, path)))
            else:
                self._disk.remove_folder(self.root / name)
        return found


def _temporary(path: Path) -> Path:
    return path.with_name(path.name + names.TEMPORARY)


def _encode(spec: ShardSpec) -> bytes:
    fields = {"name": spec.name, "config": dict(spec.config.given), "replicated": spec.replicated}
    return json.dumps(fields, indent=2).encode() + b"\n"


def _decode(data: bytes) -> ShardSpec:
    fields = json.loads(data)
    return ShardSpec(
        name=ShardName(fields["name"]),
        config=TopicConfig.of(fields["config"]),
        replicated=fields["replicated"],
    )


def told(error: Exception) -> Exception:
    """What a disk says, in our words."""
    if not isinstance(error, OSError):
        return error
    return storage_error("shards were not created", error)
