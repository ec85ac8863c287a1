"""`file://`: objects as files below a folder; any program can read them.

An object is written to `.uploads` in the same file system, synced, and given its name by one rename
(or, if it must not replace another, one hard link). Then its folder is synced. The sums are an
extended attribute of the file, so they move with it; where there are no extended attributes they
are worked out from the file each time, which finds no damage.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from stratamq.model.errors import (
    ObjectExists,
    ObjectNotFound,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from stratamq.tiering.stores import walk
from stratamq.tiering.stores.attributes import read_attribute, write_attribute
from stratamq.tiering.stores.backend import Head, Tags
from stratamq.tiering.stores.contract import Page
from stratamq.tiering.stores.deadline import Deadline
from stratamq.tiering.stores.source import UploadSource, read_range
from stratamq.tiering.stores.sums import sum_file

UPLOADS = ".uploads"
SUMS, TOKEN = "user.stratamq.sums", "user.stratamq.put"
NAMING_ATTEMPTS_MAX = 10

_NO_OBJECT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NOT_FOUND = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class DirectoryBackend:
    """The folder is made when it is opened, if it `may_be_new`. Otherwise one that is not there is
    a disk that is not mounted, and must not be made beside it."""

    window_bytes = 1 << 20  # in brief calls: they take a processor away from those who are served

    def __init__(self, root: Path, *, may_be_new: bool = True) -> None:
        self._root, self._uploads = root, root / UPLOADS
        if not may_be_new and not self._uploads.is_dir():
            raise StoreUnavailable(f"{root} is not there")
        with _translated(str(root)):
            self._uploads.mkdir(parents=True, exist_ok=True)
            self._has_attributes = self._probe()

    def put(self, key: str, source: UploadSource, tags: Tags, *, if_absent: bool) -> None:
        temporary = self._uploads / secrets.token_hex(16)
        with _translated(key, writing=True):
            try:
                self._write(temporary, source, tags)
                self._name(temporary, self._root / key, if_absent)
            finally:
                temporary.unlink(missing_ok=True)

    def head(self, key: str) -> Head:
        path = self._root / key
        with _translated(key):
            status = path.stat()
            if not path.is_file():
                raise ObjectNotFound(key)
            return Head(status.st_size, status.st_mtime_ns // 1_000_000, self._tags(path))

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
            self._prune(path.parent)

    def sweep(self, before_ms: int) -> int:
        swept = 0
        with _translated(UPLOADS):
            for path in list(self._uploads.iterdir()):
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime_ns // 1_000_000 < before_ms:
                        path.unlink()
                        swept += 1
        return swept

    def close(self) -> None:
        pass

    def _probe(self) -> bool:
        """Whether this file system keeps extended attributes."""
        probe = self._uploads / secrets.token_hex(16)
        probe.touch()
        try:
            return write_attribute(probe, SUMS, "probe")
        finally:
            probe.unlink()

    def _write(self, path: Path, source: UploadSource, tags: Tags) -> None:
        """A store whose folder has gone (a disk not mounted) is down, and is not made anew."""
        try:
            file = path.open("xb")
        except FileNotFoundError:
            raise StoreUnavailable(f"{self._uploads} is gone") from None
        with file:
            for piece in source.pieces():
                file.write(piece)
            file.flush()
            if self._has_attributes:
                write_attribute(path, SUMS, tags.sums)
                write_attribute(path, TOKEN, tags.token)
            os.fsync(file.fileno())

    def _name(self, temporary: Path, path: Path, if_absent: bool) -> None:
        """Again if the folder goes in between: whoever deletes its last object prunes it."""
        give = os.link if if_absent else os.replace
        for _ in range(NAMING_ATTEMPTS_MAX):
            self._make_folder(path.parent)
            with contextlib.suppress(FileNotFoundError):
                give(temporary, path)
                sync_folder(path.parent)
                return
        raise StoreUnavailable(f"{path.parent} is removed again and again")

    def _make_folder(self, folder: Path) -> None:
        """With its parents, each of them durable."""
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)

    def _prune(self, folder: Path) -> None:
        """Remove folders that have become empty, up to the root."""
        with contextlib.suppress(OSError):
            while folder != self._root:
                folder.rmdir()
                folder = folder.parent

    def _tags(self, path: Path) -> Tags | None:
        if not self._has_attributes:
            return Tags(sum_file(path).encode(), "")
        sums = read_attribute(path, SUMS)
        return Tags(sums, read_attribute(path, TOKEN) or "") if sums else None

    def _entries(self, folder: str) -> Iterable[walk.Entry]:
        try:
            with os.scandir(self._root / folder) as found:
                return [_entry(each) for each in found if each.is_file() or each.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            return []


def _entry(found: os.DirEntry[str]) -> walk.Entry:
    try:
        status = found.stat()
    except FileNotFoundError:  # deleted meanwhile: hidden, as the store's own are
        return walk.Entry(".", False, 0, 0)
    return walk.Entry(found.name, found.is_dir(), status.st_size, status.st_mtime_ns // 1_000_000)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _translated(what: str, *, writing: bool = False) -> Iterator[None]:
    """The operating system's errors as a store's."""
    try:
        yield
    except FileExistsError:
        raise ObjectExists(what) from None
    except OSError as error:
        raise _as_store_error(what, error, writing) from None


def _as_store_error(what: str, error: OSError, writing: bool) -> StoreError:
    reason = f"{what}: {error.strerror}"
    if error.errno in _NOT_FOUND:
        return ObjectExists(f"{what}: an object and a folder") if writing else ObjectNotFound(what)
    if error.errno in _DENIED:
        return StoreDenied(reason)
    return StoreUnavailable(reason)
