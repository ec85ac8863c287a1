"""Where the engines keep their shards below a data folder, for those who look from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stratamq.log import names

SEGMENTS_FOLDER = "segments"
MEMORY_FOLDER = "memory"
ROCKSDB_FOLDER = "rocksdb"
INDEX_FOLDER = "index"
HIGH_WATERMARKS = "high-watermarks"


def shard_roots(data_dir: Path) -> list[Path]:
    """Folders that hold a folder per shard, where they exist: of EngineSegment, and of what
    EngineMemory persists."""
    roots = (data_dir / SEGMENTS_FOLDER, data_dir / MEMORY_FOLDER / SEGMENTS_FOLDER)
    return [root for root in roots if root.is_dir()]


def stored_shards(data_dir: Path) -> Iterator[Path]:
    """Folders that hold records, or may."""
    for root in shard_roots(data_dir):
        for folder in sorted(root.iterdir()):
            if folder.is_dir() and not folder.name.endswith(names.GONE):
                yield folder
    if any((data_dir / ROCKSDB_FOLDER).glob("*")):
        yield data_dir / ROCKSDB_FOLDER
