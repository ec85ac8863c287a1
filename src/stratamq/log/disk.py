"""The door to the file system: every call that can fail or be cut off by a crash goes through it.

Promises, as on a POSIX file system:

- written bytes survive a crash of the process at once, a power cut only after `File.sync`;
- a created, renamed or removed name survives a power cut only after `Disk.sync_folder`;
- `rename` replaces its target atomically.

`tests/twins/disk.py` holds the twin that crashes, tears, flips and fills up on demand.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview | mmap.mmap

IOV_MAX = 1024
"""Most buffers that one writev takes (Linux)."""

OPEN_FILES_MAX = 4096


class File(Protocol):
    """An open file. Closes itself when nobody holds it any more."""

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def write(self, buffers: Sequence[bytes], position: int) -> None:
        """Write all of it or raise OSError (then any part of it may be there)."""

    def sync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...


class Disk(Protocol):
    """A file system. Errors are OSError, as the operating system gives them."""

    def open(self, path: Path, *, create: bool = False) -> File: ...

    def map(self, path: Path) -> Buffer:
        """The content of a file that never changes again."""

    def rename(self, source: Path, target: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def make_folder(self, path: Path) -> None: ...

    def remove_folder(self, path: Path) -> None:
        """With everything in it. May be repeated after a crash."""

    def names(self, folder: Path) -> list[str]: ...

    def exists(self, path: Path) -> bool: ...

    def sync_folder(self, path: Path) -> None: ...


class RealFile:
    """A file descriptor. Owned by reference: the last holder to let go closes it, so that evicting
    an open file from a cache can never pull it away under a reader."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path, flags: int) -> None:
        self._fd = -1
        self._fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def read(self, size: int, position: int) -> bytes:
        return os.pread(self._fd, size, position)

    def write(self, buffers: Sequence[bytes], position: int) -> None:
        for first in range(0, len(buffers), IOV_MAX):
            group = buffers[first : first + IOV_MAX]
            wanted = sum(map(len, group))
            written = os.pwritev(self._fd, group, position)
            position += written
            if written < wanted:  # a nearly full disk, or over 2 GiB at once
                self._write_rest(b"".join(group)[written:], position)
                position += wanted - written

    def _write_rest(self, rest: bytes, position: int) -> None:
        view = memoryview(rest)
        while view:
            written = os.pwrite(self._fd, view, position)
            view, position = view[written:], position + written

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size


class RealDisk:
    """The machine's own file system, with a bounded number of files kept open."""

    def __init__(self, open_files_max: int = OPEN_FILES_MAX) -> None:
        self._open: dict[Path, RealFile] = {}
        self._open_files_max = open_files_max

    def open(self, path: Path, *, create: bool = False) -> File:
        """The cached file, moved to the young end, or a new one. Dict steps are atomic: no lock;
        two threads that miss together merely open twice."""
        file = self._open.pop(path, None)
        if file is None:
            file = RealFile(path, os.O_RDWR | (os.O_CREAT if create else 0))
        self._open[path] = file
        if len(self._open) > self._open_files_max:
            self._forget(next(iter(self._open), path))
        return file

    def map(self, path: Path) -> Buffer:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            return mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b""
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        if source.is_dir():
            self._forget_below(source)
        self._forget(source)
        self._forget(target)
        source.replace(target)

    def unlink(self, path: Path) -> None:
        self._forget(path)
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def remove_folder(self, path: Path) -> None:
        self._forget_below(path)
        if path.exists():
            shutil.rmtree(path)

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder)  # noqa: PTH208 - names, not paths

    def exists(self, path: Path) -> bool:
        return path.exists()

    def sync_folder(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def _forget_below(self, folder: Path) -> None:
        for path in [path for path in list(self._open) if path.is_relative_to(folder)]:
            self._forget(path)

    def _forget(self, path: Path) -> None:
        self._open.pop(path, None)


def read_all(disk: Disk, path: Path) -> bytes:
    """The whole of a small file."""
    file = disk.open(path)
    return file.read(file.size(), 0)


def write_new(disk: Disk, path: Path, data: bytes) -> None:
    """Create or overwrite a file with synced content. Not atomic: for files nobody reads yet."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write([data], 0)
    file.sync()


def replace_file(disk: Disk, path: Path, data: bytes) -> None:
    """Give a small file new content: after a crash it has the old or the new one, whole."""
    temporary = path.with_name(path.name + ".tmp")
    write_new(disk, temporary, data)
    disk.rename(temporary, path)
    disk.sync_folder(path.parent)
