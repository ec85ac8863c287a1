"""Looking at stored data without changing anything: for `stratamq doctor` and `stratamq shard`.

Cheap, and so not complete: of shards the names, sizes, lists and checksums of small files; of
databases whether all files and all synced writes are there. Batches are checked by readers, and by
recovery.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stratamq.engine.layout import (
    HIGH_WATERMARKS,
    INDEX_FOLDER,
    MEMORY_FOLDER,
    ROCKSDB_FOLDER,
    SEGMENTS_FOLDER,
    shard_roots,
)
from stratamq.engine.segment.folders import SHARD_NAME, ShardFolders
from stratamq.log import names
from stratamq.log.disk import ReadOnlyDisk
from stratamq.log.file_list import FileList
from stratamq.log.kv import check_database
from stratamq.log.kv_files import check_files
from stratamq.model.errors import StorageError
from stratamq.model.types import EARLIEST, Offset, ShardName


def inspect(data_dir: Path, *, is_running: bool) -> Iterator[str]:
    """A sentence for each thing that is not as it was written."""
    for name in (SEGMENTS_FOLDER, MEMORY_FOLDER, f"{MEMORY_FOLDER}/{SEGMENTS_FOLDER}"):
        if os.path.lexists(data_dir / name) and not (data_dir / name).is_dir():
            yield f"{data_dir / name} is not a folder"
    for name in (ROCKSDB_FOLDER, INDEX_FOLDER, f"{MEMORY_FOLDER}/{INDEX_FOLDER}"):
        yield from inspect_database(data_dir / name, is_running=is_running)
    for root in shard_roots(ReadOnlyDisk(), data_dir):
        folders = ShardFolders(ReadOnlyDisk(), root)
        for folder in sorted(root.iterdir()):
            name = folder.name
            if name.endswith(names.GONE) or name.removesuffix(names.TEMPORARY) == HIGH_WATERMARKS:
                continue
            if not folder.is_dir() or not SHARD_NAME.fullmatch(name):
                yield f"{folder}: no shard has this name"
            elif not folders.is_unfinished(folder):
                yield from inspect_shard(folder)


def inspect_database(path: Path, *, is_running: bool, rows: bool = False) -> Iterator[str]:
    """With `rows`, all of them are read. Of a database in use, only the names and sizes of files
    can be looked at: the node itself reports what it finds inside."""
    try:
        if is_running:
            check_files(path)
        else:
            check_database(path, rows=rows)
    except (OSError, StorageError) as error:
        yield str(error)


def inspect_shard(folder: Path) -> Iterator[str]:
    """The same for one shard. Its batches are not read: see `stratamq.log.stored`."""
    try:
        ShardFolders(ReadOnlyDisk(), folder.parent).read_spec(ShardName(folder.name))
    except (OSError, StorageError) as error:
        yield f"{folder / names.SPEC}: {error}"
    listed = FileList(ReadOnlyDisk(), folder)
    yield from listed.damage
    sizes = _log_sizes(folder)
    found = listed.compare(sizes, EARLIEST)
    for base in found.missing:
        yield f"{folder / names.segment_file(base, names.LOG)}: missing"
    for base in found.doubtful:
        if sizes[base]:  # an empty one may be a roll that was cut off, or is under way
            yield f"{folder / names.segment_file(base, names.LOG)}: not in the list of its files"
    for base, known in listed.segments.items():
        if known and sizes.get(base, known[-1]) not in known:
            path = folder / names.segment_file(base, names.LOG)
            yield f"{path}: {sizes[base]} bytes, where it had {known[-1]}"


def _log_sizes(folder: Path) -> dict[Offset, int]:
    bases = {names.base_of_log(path.name): path for path in folder.iterdir()}
    return {base: path.stat().st_size for base, path in bases.items() if base is not None}
