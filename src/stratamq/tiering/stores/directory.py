"""`file://`: objects as files below a folder; any program can read them.

An object is written to `.uploads` in the same file system, synced, and given its name by one rename
(or, if it must not replace another, one hard link). Then its folder is synced. The sums are an
extended attribute of the file, so they move with it; where there are no extended attributes they
are computed from the file each time, which finds no damage.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from stratamq.model.errors import (
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreUnavailable,
)
from stratamq.tiering.stores import walk
from stratamq.tiering.stores.attempts import Deadline
from stratamq.tiering.stores.backend import Head, Tags
from stratamq.tiering.stores.contract import Page
from stratamq.tiering.stores.source import UploadSource, read_range
from stratamq.tiering.stores.sums import sum_file

_NONE = {errno.ENODATA, errno.ENOTSUP, errno.EPERM}


def write_attribute(path: Path, name: str, value: str) -> bool:
    """Write an extended attribute. False if this system or file system has none."""
    if not hasattr(os, "setxattr"):
        return False
    try:
        os.setxattr(path, name, value.encode())
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM):
            return False
        raise
    return True


def read_attribute(path: Path, name: str) -> str | None:
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(path, name).decode()
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise


UPLOADS = ".uploads"
SUMS, TOKEN = "user.stratamq.sums", "user.stratamq.put"
NAMING_ATTEMPTS_MAX = 10

_NO_OBJECT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NOT_FOUND = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class DirectoryBackend:
    """Objects below the folder `root`, which is created if it `may_be_new`. Otherwise a missing
    folder means a disk that is not mounted, and creating it would hide that."""

    window_bytes = 1 << 20  # short calls: a long one takes the processor from clients' requests

    def __init__(self, root: Path, *, may_be_new: bool = True) -> None:
        self._root, self._uploads = root, root / UPLOADS
        if not may_be_new and not self._uploads.is_dir():
            raise StoreUnavailable(f"{root} is not there")
        with _translated(str(root)):
            self._uploads.mkdir(parents=True, exist_ok=True)
            probe = self._uploads / secrets.token_hex(16)
            probe.touch()
            try:
                self._has_attributes = write_attribute(probe, SUMS, "probe")
            finally:
                probe.unlink()

    def put(self, key: str, source: UploadSource, tags: Tags, *, if_absent: bool) -> None:
        temporary = self._uploads / secrets.token_hex(16)
        with _translated(key, writing=True):
            try:
                with self._created(temporary) as file:  # until it has its name
                    self._write(file, temporary, source, tags)
                    self._name(temporary, self._root / key, if_absent)
            finally:
                temporary.unlink(missing_ok=True)

    def head(self, key: str) -> Head:
        path = self._root / key
        with _translated(key):
            status = path.stat()
            if not path.is_file():
                raise ObjectNotFound(key)
            if self._has_attributes:
                sums, token = read_attribute(path, SUMS), read_attribute(path, TOKEN)
                tags = Tags(sums, token or "") if sums else None
            else:
                tags = Tags(sum_file(path).encode(), "")
            return Head(status.st_size, status.st_mtime_ns // 1_000_000, tags)

    def read(self, key: str, start: int, stop: int, deadline: Deadline) -> bytes:
        with _translated(key), (self._root / key).open("rb", buffering=0) as file:
            data = read_range(file.fileno(), start, stop)
        deadline.check()
        return data

    def list_page(self, prefix: str, after: str, limit: int) -> Page:
        with _translated(prefix):
            return walk.page(self._entries, prefix, after, limit)

    def delete(self, key: str) -> None:
        path = self._root / key
        with _translated(key), contextlib.suppress(*_NO_OBJECT):
            path.unlink()
            sync_folder(path.parent)
            # Folders that have become empty go as well, up to the root.
            folder = path.parent
            with contextlib.suppress(OSError):
                while folder != self._root:
                    folder.rmdir()
                    folder = folder.parent

    def sweep(self, before_ms: int) -> int:
        swept = 0
        with _translated(UPLOADS):
            for path in list(self._uploads.iterdir()):
                with contextlib.suppress(FileNotFoundError, BlockingIOError):
                    if path.stat().st_mtime_ns // 1_000_000 < before_ms:
                        with path.open("rb") as file:
                            _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                            path.unlink()
                        swept += 1
        return swept

    def close(self) -> None:
        pass

    def _created(self, path: Path) -> BinaryIO:
        """A new file, locked while it is open: a sweep of this or another process spares it, and
        takes it when its writer is gone. If `.uploads` has gone (a disk not mounted), the store is
        down; the folder is not created again."""
        while True:
            try:
                file = path.open("xb")
            except FileNotFoundError:
                raise StoreUnavailable(f"{self._uploads} is gone") from None
            _lock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # swept before it was locked

    def _write(self, file: BinaryIO, path: Path, source: UploadSource, tags: Tags) -> None:
        for piece in source.pieces():
            file.write(piece)
        file.flush()
        if self._has_attributes:
            write_attribute(path, SUMS, tags.sums)
            write_attribute(path, TOKEN, tags.token)
        os.fsync(file.fileno())

    def _name(self, temporary: Path, path: Path, if_absent: bool) -> None:
        """Give the file its name. Retried if the folder goes meanwhile: the thread that deletes
        the last object of a folder removes the folder too."""
        give = os.link if if_absent else os.replace
        for _ in range(NAMING_ATTEMPTS_MAX):
            self._make_folder(path.parent)
            with contextlib.suppress(FileNotFoundError):
                give(temporary, path)
                sync_folder(path.parent)
                return
        raise StoreUnavailable(f"{path.parent} was removed {NAMING_ATTEMPTS_MAX} times meanwhile")

    def _make_folder(self, folder: Path) -> None:
        """Create a folder and its parents, and sync each of them."""
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)

    def _entries(self, folder: str) -> Iterable[walk.Entry]:
        entries: list[walk.Entry] = []
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(self._root / folder) as found,
        ):
            for one in found:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    is_folder, status = one.is_dir(), one.stat()
                    if is_folder or one.is_file():
                        modified_ms = status.st_mtime_ns // 1_000_000
                        entries.append(walk.Entry(one.name, is_folder, status.st_size, modified_ms))
        return entries


def _lock(file: BinaryIO, kind: int) -> None:
    """BlockingIOError if another has it and `kind` does not wait. Where a file system has no locks,
    only the age of an upload says whether it is under way."""
    try:
        fcntl.flock(file, kind)
    except BlockingIOError:
        raise
    except OSError:
        pass


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _translated(what: str, *, writing: bool = False) -> Iterator[None]:
    """Raise the operating system's errors as a store's."""
    try:
        yield
    except FileExistsError:
        raise ObjectExists(what) from None
    except OSError as error:
        if error.errno in _NOT_FOUND:
            # A put makes its folders: one that is "missing" is an object of that name.
            if writing:
                raise ObjectExists(f"{what}: an object and a folder") from None
            raise ObjectNotFound(what) from None
        kind = StoreDenied if error.errno in _DENIED else StoreUnavailable
        raise kind(f"{what}: {error.strerror}") from None
