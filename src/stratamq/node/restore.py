"""Restoring a backup into an empty folder.

Files are copied to `restoring/` in the target, each compared with its checksum on the way. What a
running node has left to the restore is done there. Then everything is synced and moved up, and
`restoring/` is removed. A node does not start on a folder that has one.
"""

from __future__ import annotations

import os
from pathlib import Path

from stratamq.engine.rocksdb.engine import ENDS_FILE, cut_copy
from stratamq.log.disk import PRIVATE_FILE, PRIVATE_FOLDER, RealDisk, storage_error
from stratamq.log.freeing import clear_away
from stratamq.log.shard_copy import OnBytes
from stratamq.meta.store import make_store
from stratamq.model.errors import StorageError
from stratamq.node.backup_folder import (
    META_ROWS_FILE,
    BackupFile,
    Manifest,
    check_sizes,
    keep_extras,
    read_checked,
    read_manifest,
)
from stratamq.node.layout import META_FOLDER, RESTORING_FOLDER, SYSTEM_NAMES


def restore(backup: Path, data_dir: Path, on_bytes: OnBytes) -> Manifest:
    """StorageError when the backup is not whole, or the target is not empty. What was written
    before a failure is removed again."""
    manifest = read_manifest(backup)
    check_sizes(backup, manifest)
    try:
        data_dir.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        found = sorted({path.name for path in data_dir.iterdir()} - SYSTEM_NAMES)
    except OSError as error:
        raise storage_error(f"{data_dir}", error) from error
    if found:
        raise StorageError(f"{data_dir} is not empty: it holds {found[0]!r}; name an empty folder")
    restoring = data_dir / RESTORING_FOLDER
    try:
        restoring.mkdir(PRIVATE_FOLDER)
        _copy_all(backup, manifest, restoring, on_bytes)
        _finish_stores(restoring)
    except OSError as error:
        clear_away(restoring)
        raise storage_error(f"{restoring}", error) from error
    except BaseException:
        clear_away(restoring)
        raise
    for path in sorted(restoring.iterdir()):
        path.rename(data_dir / path.name)
    restoring.rmdir()
    RealDisk().sync_folder(data_dir)
    return manifest


def _finish_stores(target: Path) -> None:
    """What a running node leaves to its restore."""
    rows = target / META_ROWS_FILE
    if rows.exists():
        make_store(rows, target / META_FOLDER)
        rows.unlink()
    if (target / ENDS_FILE).exists():
        cut_copy(target)


def _copy_all(backup: Path, manifest: Manifest, target: Path, on_bytes: OnBytes) -> None:
    disk = RealDisk()
    for folder in manifest.folders:
        (target / folder).mkdir(PRIVATE_FOLDER)
    for file in manifest.files:
        _copy(backup, file, target / file.path, on_bytes)
    for folder in (*manifest.folders, "."):
        disk.sync_folder(target / folder)


def _copy(backup: Path, file: BackupFile, target: Path, on_bytes: OnBytes) -> None:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    with os.fdopen(fd, "wb", buffering=0) as copy:
        for chunk in read_checked(backup, file):
            copy.write(chunk)
            on_bytes(len(chunk))
        os.fdatasync(fd)
    keep_extras(target, file.modified_ms, file.attributes)
