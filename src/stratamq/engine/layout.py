"""Where the engines keep their shards below a data folder, for those who look from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from stratamq.log import names
from stratamq.log.disk import Disk

SEGMENTS_FOLDER = "segments"
MEMORY_FOLDER = "memory"
ROCKSDB_FOLDER = "rocksdb"
INDEX_FOLDER = "index"
HIGH_WATERMARKS = "high-watermarks"


def shard_roots(disk: Disk, data_dir: Path) -> list[Path]:
    """Folders that hold a folder per shard, where they exist: of EngineSegment, and of what
    EngineMemory persists."""
    roots = (data_dir / SEGMENTS_FOLDER, data_dir / MEMORY_FOLDER / SEGMENTS_FOLDER)
    return [root for root in roots if disk.is_folder(root)]


def stored_shards(
    disk: Disk, data_dir: Path, wanted: Callable[[str], bool] = lambda name: True
) -> Iterator[Path]:
    """Folders that hold records, or may, of those names that are `wanted`."""
    for root in shard_roots(disk, data_dir):
        for name in sorted(disk.names(root)):
            if wanted(name) and disk.is_folder(root / name) and not name.endswith(names.GONE):
                yield root / name
    if holds_anything(disk, data_dir / ROCKSDB_FOLDER):
        yield data_dir / ROCKSDB_FOLDER


def holds_anything(disk: Disk, folder: Path) -> bool:
    return disk.is_folder(folder) and bool(disk.names(folder))
