"""The door to the file system: every call that can fail or be cut off by a crash goes through it.

Promises, as on a POSIX file system:

- written bytes survive a crash of the process at once, a power cut only after `File.sync`;
- a created, renamed or removed name survives a power cut only after `Disk.sync_folder`;
- `rename` replaces its target atomically.

`tests/twins/disk.py` holds the twin that crashes, tears, flips and fills up on demand.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable, Iterable, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar, cast

from stratamq.log.freeing import hold, remove_tree
from stratamq.log.open_files import OpenFiles
from stratamq.model.errors import DiskFull, StorageError, TooManyOpenFiles

Buffer = bytes | bytearray | memoryview | mmap.mmap

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""Messages and passwords are for the user of the node alone."""

IOV_MAX = 1024
"""Most buffers that one writev takes (Linux)."""

WRITE_DURABLY: int = getattr(os, "RWF_DSYNC", 0)
"""One call for write and sync (Linux): the GIL is released once, for both. 0 where there is no such
call."""

UNKNOWN_FLAG = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""Errors of systems that have the call but not the flag, such as some sandboxes for containers."""

READ_AT_ONCE: int = getattr(os, "RWF_NOWAIT", 0)
"""Read what is in memory and fail otherwise (Linux). 0 where there is no such call."""

OPEN_FILES_MAX = 4096

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}

OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE}
"""The process, or the system, has as many files open as it may."""

OPEN_ATTEMPTS_MAX = 4
"""Each evicts half of the open files that are only kept for later."""

T = TypeVar("T")


class Readable(Protocol):
    """Bytes of a file, wherever they are."""

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""


class File(Readable, Protocol):
    """An open file. It is closed when its last holder drops it."""

    def read_at_once(self, size: int, position: int) -> bytes | None:
        """The same if all of it is in memory, else None: never waits for the disk."""

    def write(self, buffers: Sequence[Buffer], position: int, *, durable: bool = False) -> None:
        """Write all of it or raise OSError (then any part of it may be there). With `durable`,
        these bytes survive a power cut as after `sync`, in one call instead of two."""

    def sync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def has_name(self) -> bool:
        """Whether the file is still in a folder: otherwise it goes with its last holder."""

    def is_linked(self) -> bool:
        """Whether the file has a second name, as in a backup."""


class Disk(Protocol):
    """A file system. Errors are OSError, as the operating system gives them."""

    def open(self, path: Path, *, create: bool = False) -> File: ...

    def at_hand(self, path: Path) -> File | None:
        """The file if it is open already: never waits for the disk."""

    def map(self, path: Path) -> Buffer:
        """The content of a file that never changes again."""

    def size(self, path: Path) -> int:
        """Bytes of a file, without opening it."""

    def modified_ms(self, path: Path) -> int:
        """When the file's content last changed."""

    def set_modified(self, path: Path, modified_ms: int) -> None:
        """A file that takes the place of another may keep its time."""

    def rename(self, source: Path, target: Path) -> None: ...

    def unlink(self, path: Path) -> None: ...

    def link(self, source: Path, target: Path) -> None:
        """Give a file that never changes again a second name, which may be outside of the data
        folder. OSError where the file system of the target cannot."""

    def make_folder(self, path: Path) -> None: ...

    def remove_folder(self, path: Path) -> None:
        """With everything in it. May be repeated after a crash."""

    def names(self, folder: Path) -> list[str]: ...

    def exists(self, path: Path) -> bool: ...

    def is_folder(self, path: Path) -> bool: ...

    def is_file(self, path: Path) -> bool:
        """Whether it is a regular file: a pipe or a device is there, and is none."""

    def sync_folder(self, path: Path) -> None: ...

    def sync_all(self, files: Sequence[File]) -> Sequence[OSError | None]:
        """Sync many files, in any order or at once: for each of them its error, or None. All have
        ended on return."""

    def sync_folders(self, paths: Sequence[Path]) -> None:
        """The same for folders. The first error is raised."""


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of a regular file. Anything else in its place is refused: opening a pipe waits
    for another process, and the thread that waits would serve no shard any more."""
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, PRIVATE_FILE)
    try:
        check_regular(path, os.fstat(fd))
    except OSError:
        os.close(fd)
        raise
    return fd


def check_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


class RealFile:
    """A file descriptor. Owned by reference: the last holder to drop it closes it, so that evicting
    an open file from a cache never takes it away from a reader.

    `close` is called with the descriptor then. A file that was removed gets another one than
    `os.close`, which would free all its blocks in one call, on the thread of its last reader.
    """

    __slots__ = ("_fd", "close")

    def __init__(self, path: Path, flags: int) -> None:
        self.close: Callable[[int], None] = os.close
        self._fd = -1
        self._fd = open_regular(path, flags)

    def __del__(self) -> None:
        if self._fd >= 0:
            self.close(self._fd)

    def read(self, size: int, position: int) -> bytes:
        return os.pread(self._fd, size, position)

    def read_at_once(self, size: int, position: int) -> bytes | None:
        if not READ_AT_ONCE:
            return None
        buffer = bytearray(size)
        try:
            found = os.preadv(self._fd, [buffer], position, READ_AT_ONCE)
        except OSError:  # not in memory, or the file system does not know the flag
            return None
        return bytes(buffer) if found == size else None

    def write(self, buffers: Sequence[Buffer], position: int, *, durable: bool = False) -> None:
        flags = WRITE_DURABLY if durable else 0
        for first in range(0, len(buffers), IOV_MAX):
            group = buffers[first : first + IOV_MAX]
            wanted = sum(map(len, group))
            try:
                written = os.pwritev(self._fd, group, position, flags)
            except OSError as error:
                written = self._write_then_sync(group, position, flags, error)
            position += written
            if written < wanted:  # a nearly full disk, or over 2 GiB at once
                self._write_rest(b"".join(group)[written:], position, flags)
                position += wanted - written
        if durable and not WRITE_DURABLY:
            self.sync()

    def _write_rest(self, rest: bytes, position: int, flags: int) -> None:
        view = memoryview(rest)
        while view:
            try:
                written = os.pwritev(self._fd, [view], position, flags)
            except OSError as error:
                written = self._write_then_sync([view], position, flags, error)
            view, position = view[written:], position + written

    def _write_then_sync(
        self, buffers: Sequence[Buffer], position: int, flags: int, error: OSError
    ) -> int:
        """The system does not know the flag, so nothing was written: in two calls, then. Any other
        error is raised."""
        if not flags or error.errno not in UNKNOWN_FLAG:
            raise error
        written = os.pwritev(self._fd, buffers, position)
        self.sync()
        return written

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def has_name(self) -> bool:
        return os.fstat(self._fd).st_nlink > 0

    def is_linked(self) -> bool:
        return os.fstat(self._fd).st_nlink > 1


def one_by_one(calls: Sequence[Callable[[], None]]) -> Sequence[OSError | None]:
    """Make every call; for each of them its error, or None."""
    errors: list[OSError | None] = [None] * len(calls)
    for number, call in enumerate(calls):
        try:
            call()
        except OSError as error:
            errors[number] = error
    return errors


class RealDisk:
    """The machine's own file system, with a bounded number of files kept open or mapped.

    Readers in many threads share the open files without a lock; `OpenFiles` says who may hold one
    and what a change of its name does. Each change of a name here comes first, and the cache
    forgets the name afterwards. Where the process runs out of descriptors, the cache makes some
    free before the caller gets an error.
    """

    def __init__(
        self,
        open_files_max: int = OPEN_FILES_MAX,
        free_later: Callable[[int], None] = os.close,
        together: Callable[[Sequence[Callable[[], None]]], Sequence[OSError | None]] = one_by_one,
        held: Sized = (),
    ) -> None:
        """`free_later` gets the descriptors of large files that were removed; see
        `stratamq.log.freeing`. `together` makes many blocking calls, on threads where it has
        some. `held` are the files that writers keep open: they count among `open_files_max`."""
        self._free_later, self._together = free_later, together
        self._cache: OpenFiles[RealFile | Buffer] = OpenFiles(open_files_max, held)

    def open(self, path: Path, *, create: bool = False) -> File:
        key = str(path), False
        file = self._cache.find(key)
        if file is None:
            flags = os.O_RDWR | (os.O_CREAT if create else 0)
            file = self._cache.add(key, lambda: self._with_descriptor(RealFile, path, flags))
        assert isinstance(file, RealFile), "maps have keys of their own"
        return file

    def at_hand(self, path: Path) -> File | None:
        file = self._cache.find((str(path), False))
        return file if isinstance(file, RealFile) else None

    def map(self, path: Path) -> Buffer:
        key = str(path), True
        content = self._cache.find(key)
        if content is None:
            content = self._cache.add(key, lambda: self._with_descriptor(_mapped, path))
        return cast(Buffer, content)

    def size(self, path: Path) -> int:
        found = path.stat()
        check_regular(path, found)
        return found.st_size

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def set_modified(self, path: Path, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000,) * 2)

    def rename(self, source: Path, target: Path) -> None:
        replaced = hold(target)
        try:
            os.replace(source, target)  # noqa: PTH105 - `Path.replace` makes another Path
        finally:
            if self._cache.forget(str(source)) is None:  # perhaps a folder
                for inside in self._files_in(source, now=target):
                    self._cache.forget(inside)
            self._removed(str(target), replaced)

    def unlink(self, path: Path) -> None:
        held = hold(path)
        try:
            path.unlink(missing_ok=True)
        finally:
            self._removed(str(path), held)

    def link(self, source: Path, target: Path) -> None:
        target.hardlink_to(source)

    def _removed(self, path: str, held: int | None) -> None:
        """The file that a path meant has no name any more."""
        file = self._cache.forget(path)
        if isinstance(file, RealFile):
            file.close = self._free_later
        if held is not None:
            self._free_later(held)

    def make_folder(self, path: Path) -> None:
        path.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)

    def remove_folder(self, path: Path) -> None:
        inside = self._files_in(path, now=path)
        try:
            self._with_descriptor(remove_tree, path, self._free_later)
        finally:
            for file in inside:
                self._removed(file, None)

    def _files_in(self, folder: Path, *, now: Path) -> Iterable[str]:
        """Files of a folder, which is called `now` at this moment, by the paths under which they
        may be open. A node has one folder per shard and very many open files: listing the folder
        spares a pass over all of those. A file itself has none."""
        try:
            return [f"{folder}{path[len(str(now)) :]}" for path in _files_below(now)]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError:
            return self._cache.below(str(folder))

    def names(self, folder: Path) -> list[str]:
        return self._with_descriptor(os.listdir, folder)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def is_file(self, path: Path) -> bool:
        return path.is_file()

    def sync_folder(self, path: Path) -> None:
        fd = self._with_descriptor(os.open, path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, files: Sequence[File]) -> Sequence[OSError | None]:
        return self._together([file.sync for file in files])

    def sync_folders(self, paths: Sequence[Path]) -> None:
        for error in self._together([partial(self.sync_folder, path) for path in paths]):
            if error is not None:
                raise error

    def _with_descriptor(self, opening: Callable[..., T], *args: object) -> T:
        """Open something. Where no descriptor is left, files that are only kept for later are
        closed."""
        for _ in range(OPEN_ATTEMPTS_MAX - 1):
            try:
                return opening(*args)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self.close_unused():
                    raise
        return opening(*args)

    def close_unused(self) -> int:
        """Close half of the files that are only kept for later; how many."""
        return self._cache.evict((len(self._cache) + 1) // 2)


def _files_below(folder: Path | str) -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found += _files_below(entry.path)
            else:
                found.append(entry.path)
    return found


def _mapped(path: Path) -> Buffer:
    """The file's content. An empty file cannot be mapped."""
    fd = open_regular(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        return mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b""
    finally:
        os.close(fd)


def storage_error(what: str, error: OSError) -> StorageError:
    """The error of ours that an error of the disk becomes: the words of the system, and its path
    once."""
    kind = StorageError
    if error.errno in NO_ROOM:
        kind = DiskFull
    elif error.errno in OUT_OF_DESCRIPTORS:
        kind = TooManyOpenFiles
    if error.strerror is None:
        return kind(f"{what}: {error}")
    path = str(error.filename or "")
    if path.startswith(what):
        return kind(f"{path}: {error.strerror}")
    return kind(": ".join(filter(None, [what, path, error.strerror])))


class ReadOnlyDisk(RealDisk):
    """For looking at a folder that is not ours to change, perhaps on a file system that is mounted
    read-only. Files stay open no longer than their holders want."""

    def open(self, path: Path, *, create: bool = False) -> File:
        assert not create, "nothing is written"
        return RealFile(path, os.O_RDONLY)


def read_all(disk: Disk, path: Path) -> bytes:
    """The whole of a small file."""
    file = disk.open(path)
    return file.read(file.size(), 0)


def write_new(disk: Disk, path: Path, data: bytes) -> None:
    """Create or overwrite a file with synced content. Not atomic: for files without readers."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write([data], 0)
    file.sync()


def replace_file(disk: Disk, path: Path, data: bytes) -> None:
    """Give a small file new content: after a crash it has the old or the new one, whole."""
    written = temporary(path)
    write_new(disk, written, data)
    disk.rename(written, path)
    disk.sync_folder(path.parent)


def temporary(path: Path) -> Path:
    """What a file is called until its new content is whole."""
    return path.with_name(path.name + ".tmp")
