"""A backup as a folder: what is in it, and how one that is not whole is recognised.

    NAME.partial/data/...        while it is written
    NAME.partial/manifest.json   last, when everything else is synced; then the folder is renamed
    NAME/manifest.json
    NAME/data/...                the files of a node's data folder

Of a running node, the metadata is a file of rows (`meta.rows`), and `rocksdb-ends.json` says where
the logs in `rocksdb/` are to end: a restore makes stores of them.

The manifest is JSON:

| field               | meaning                                                                    |
|---------------------|----------------------------------------------------------------------------|
| `format`            | 1. One that is newer than this program knows is refused                    |
| `version`, `cluster_id`, `node_id` | who made it                                                 |
| `taken_ms`          | the moment: everything acknowledged before it is there                     |
| `topics`, `shards`  | how many                                                                   |
| `unavailable`       | shards that could not be opened; their files are there as they were        |
| `without_records`   | topics whose records are not in the backup: they are in memory alone, or   |
|                     | in a storage of the user's own                                             |
| `store`, `objects`  | the object store, and how many objects the metadata names there; empty     |
|                     | and 0 where the objects are in the backup, or there are none               |
| `folders`           | every folder below `data`                                                  |
| `files`             | every file below `data`: `path`, `size`, `crc32c`, `modified_ms`, and the  |
|                     | extended attributes of the files of an object store                        |
| `checksum`          | CRC32C of the other fields as one line of JSON, sorted by name             |
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any

from stratamq.log.disk import PRIVATE_FOLDER, RealDisk, RealFile, replace_file
from stratamq.log.shard_copy import CHUNK_BYTES, OnBytes, copy_bytes
from stratamq.model.errors import StorageError
from stratamq.wire.crc import crc32c

FORMAT = 1
MANIFEST_FILE = "manifest.json"
DATA_FOLDER = "data"
PARTIAL = ".partial"

META_ROWS_FILE = "meta.rows"
"""The metadata in the backup of a running node. A restore makes a store of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """A file below `data`, by its path there."""

    path: str
    size: int
    crc32c: str
    modified_ms: int
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """See the module."""

    format: int = FORMAT
    version: str
    cluster_id: str
    node_id: int
    taken_ms: int
    topics: int = 0
    shards: int = 0
    unavailable: list[str] = field(default_factory=list)
    without_records: list[str] = field(default_factory=list)
    store: str = ""
    objects: int = 0
    folders: list[str] = field(default_factory=list)
    files: list[BackupFile] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)

    def encode(self) -> bytes:
        """One call of `json.dumps` would hold the GIL for all files, of which there may be tens of
        thousands."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        lines, crc = [], 0
        for line in _lines({**values, "files": map(asdict, self.files)}):
            lines.append(line)
            crc = crc32c(line, crc)
        return b"\n".join([*lines, b', "checksum": "%08x"}\n' % crc32c(b"}", crc)])


def read_manifest(backup: Path) -> Manifest:
    """StorageError unless there is a whole backup of a known format."""
    path = backup / MANIFEST_FILE
    if not backup.is_dir():
        raise StorageError(f"there is no folder {backup}")
    try:
        values: dict[str, Any] = json.loads(path.read_bytes())
        found = values.pop("checksum", None)
        form = int(values.get("format", 0))
        if form > FORMAT:
            raise StorageError(
                f"{path} has format {form}, and this release reads up to {FORMAT}:"
                " restore it with the release that made it, or a newer one"
            )
        if found != _checksum(values):
            raise StorageError(f"{path} is damaged: it does not match its checksum")
        values["files"] = [BackupFile(**file) for file in values["files"]]
        manifest = Manifest(**values)
        for name in (*manifest.folders, *(file.path for file in manifest.files)):
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise StorageError(f"{path} names {name!r}, which is outside of a data folder")
        return manifest
    except FileNotFoundError:
        raise StorageError(
            f"{backup} has no {MANIFEST_FILE}: it is not a backup, or one that was cut off"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"{path} is damaged: {error}") from None


def _checksum(values: Mapping[str, Any]) -> str:
    return f"{crc32c(b''.join([*_lines(values), b'}'])):08x}"


def _lines(values: Mapping[str, Any]) -> Iterator[bytes]:
    """Fields in the form of `json.dumps(values, sort_keys=True)`, without the last brace. Each
    field and each element of a list is a line."""
    encode = json.JSONEncoder(sort_keys=True).encode
    for number, (name, value) in enumerate(sorted(values.items())):
        before = f"{', ' if number else '{'}{encode(name)}: "
        if isinstance(value, list | Iterator):
            yield f"{before}[".encode()
            for place, one in enumerate(value):
                yield f"{', ' if place else ''}{encode(one)}".encode()
            yield b"]"
        else:
            yield f"{before}{encode(value)}".encode()


# -- writing --------------------------------------------------------------------------------------


def make_folders(partial: Path) -> Path:
    """The folder of a backup, for its owner alone, and `data` in it, which is returned."""
    for folder in (partial.parent, partial, partial / DATA_FOLDER):
        folder.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=folder == partial.parent)
    return partial / DATA_FOLDER


def files_below(folder: Path) -> Iterator[Path]:
    """Files and folders, each folder before what is in it. Some may go meanwhile."""
    with suppress(FileNotFoundError):
        for path in sorted(folder.iterdir()):
            yield path
            if path.is_dir():
                yield from files_below(path)


def describe(data: Path, on_bytes: OnBytes) -> tuple[list[str], list[BackupFile]]:
    """The folders and files of a backup, all of them synced."""
    disk, folders, files = RealDisk(), [], []
    for path in files_below(data):
        name = path.relative_to(data).as_posix()
        if path.is_dir():
            folders.append(name)
            disk.sync_folder(path)
        else:
            files.append(_described(path, name, on_bytes))
    disk.sync_folder(data)
    return folders, files


def _described(path: Path, name: str, on_bytes: OnBytes) -> BackupFile:
    with path.open("rb", buffering=0) as file:
        os.fsync(file.fileno())
        size, crc = 0, 0
        while chunk := file.read(CHUNK_BYTES):
            size, crc = size + len(chunk), crc32c(chunk, crc)
            on_bytes(len(chunk))
        modified_ms = os.fstat(file.fileno()).st_mtime_ns // 1_000_000
    return BackupFile(
        path=name,
        size=size,
        crc32c=f"{crc:08x}",
        modified_ms=modified_ms,
        attributes=dict(_attributes(path)),
    )


def _attributes(path: Path) -> Iterator[tuple[str, str]]:
    """Extended attributes of ours: an object store has its sums there, and copying a backup from
    machine to machine may lose them."""
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(path):
                if name.startswith("user.stratamq."):
                    yield name, os.getxattr(path, name).decode()


def finish(partial: Path, manifest: Manifest) -> None:
    """Write the manifest, and give the folder its name. It is a backup from now on."""
    disk, backup = RealDisk(), partial.with_name(partial.name.removesuffix(PARTIAL))
    replace_file(disk, partial / MANIFEST_FILE, manifest.encode())
    if backup.exists():
        raise StorageError(f"{backup} is there already")
    partial.rename(backup)
    disk.sync_folder(backup.parent)


# -- checking and restoring -----------------------------------------------------------------------


def check_sizes(backup: Path, manifest: Manifest) -> None:
    """The short check, before anything is read or written."""
    for file in manifest.files:
        path = backup / DATA_FOLDER / file.path
        try:
            found = path.stat().st_size
        except OSError as error:
            raise StorageError(f"{path}: {os.strerror(error.errno or errno.EIO)}") from None
        if found != file.size:
            raise StorageError(f"{path} has {found} bytes, and had {file.size}: it is damaged")


def read_checked(backup: Path, file: BackupFile) -> Iterator[bytes]:
    """The content of a file, in pieces. StorageError at its end, if it is not what it was."""
    path, size, crc = backup / DATA_FOLDER / file.path, 0, 0
    with path.open("rb", buffering=0) as source:
        while chunk := source.read(CHUNK_BYTES):
            size, crc = size + len(chunk), crc32c(chunk, crc)
            yield chunk
    if (size, f"{crc:08x}") != (file.size, file.crc32c):
        raise StorageError(f"{path} does not match its checksum: it is damaged")


def check_all(backup: Path, manifest: Manifest, on_bytes: OnBytes) -> None:
    check_sizes(backup, manifest)
    for file in manifest.files:
        for chunk in read_checked(backup, file):
            on_bytes(len(chunk))


def copy_tree(source: Path, target: Path, on_bytes: OnBytes, *, links: bool) -> None:
    """Copy a folder, or with `links` link its files, which never change. What is gone by now is
    left out."""
    target.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
    for path in files_below(source):
        wanted = target / path.relative_to(source)
        with suppress(FileNotFoundError):
            if path.is_dir():
                wanted.mkdir(PRIVATE_FOLDER, exist_ok=True)
            elif not links or not _linked(path, wanted):
                copy_file(path, wanted, on_bytes)


def _linked(source: Path, target: Path) -> bool:
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one that cannot
        return False
    return True


def copy_file(source: Path, target: Path, on_bytes: OnBytes) -> None:
    """With its time and its extended attributes of ours."""
    file = RealFile(source, os.O_RDONLY)
    copy_bytes(file, file.size(), target, on_bytes)
    keep_extras(target, source.stat().st_mtime_ns // 1_000_000, dict(_attributes(source)))


def keep_extras(path: Path, modified_ms: int, attributes: Mapping[str, str]) -> None:
    with suppress(OSError):  # a file system without them: the store does without, too
        for name, value in attributes.items():
            os.setxattr(path, name, value.encode())
    os.utime(path, ns=(modified_ms * 1_000_000,) * 2)
