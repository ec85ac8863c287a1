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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from stratamq.log.freeing import hold, remove_tree

Buffer = bytes | bytearray | memoryview | mmap.mmap

IOV_MAX = 1024
"""Most buffers that one writev takes (Linux)."""

WRITE_DURABLY: int = getattr(os, "RWF_DSYNC", 0)
"""Write and sync in one call (Linux). The interpreter is given up once instead of twice, so that
what others do meanwhile hides behind the whole of it. 0 where there is no such call."""

UNKNOWN_FLAG = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
"""What systems say that have the call but not the flag, such as some sandboxes for containers."""

READ_AT_ONCE: int = getattr(os, "RWF_NOWAIT", 0)
"""Read what is in memory and fail otherwise (Linux). 0 where there is no such call."""

OPEN_FILES_MAX = 4096

GENERATIONS = 1024
"""Counters that all paths share by their hash: a change of one name may cost another its place in
the cache, and nothing else."""

Key = tuple[Path, bool, int]
"""A path, whether it is mapped, and its generation."""


class Readable(Protocol):
    """Bytes of a file, wherever they are."""

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""


class File(Readable, Protocol):
    """An open file. Closes itself when nobody holds it any more."""

    def read_at_once(self, size: int, position: int) -> bytes | None:
        """The same if all of it is in memory, else None: never waits for the disk."""

    def write(self, buffers: Sequence[Buffer], position: int, *, durable: bool = False) -> None:
        """Write all of it or raise OSError (then any part of it may be there). With `durable`,
        these bytes survive a power cut as after `sync`, in one call instead of two."""

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

    def read_at_once(self, size: int, position: int) -> bytes | None:
        if not READ_AT_ONCE:
            return None
        room = bytearray(size)
        try:
            found = os.preadv(self._fd, [room], position, READ_AT_ONCE)
        except OSError:  # not there yet, or a file system that cannot tell: `read` will say
            return None
        return bytes(room) if found == size else None

    def write(self, buffers: Sequence[Buffer], position: int, *, durable: bool = False) -> None:
        flags = WRITE_DURABLY if durable else 0
        for first in range(0, len(buffers), IOV_MAX):
            group = buffers[first : first + IOV_MAX]
            wanted = sum(map(len, group))
            written = self._pwritev(group, position, flags)
            position += written
            if written < wanted:  # a nearly full disk, or over 2 GiB at once
                self._write_rest(b"".join(group)[written:], position, flags)
                position += wanted - written
        if durable and not WRITE_DURABLY:
            self.sync()

    def _write_rest(self, rest: bytes, position: int, flags: int) -> None:
        view = memoryview(rest)
        while view:
            written = self._pwritev([view], position, flags)
            view, position = view[written:], position + written

    def _pwritev(self, buffers: Sequence[Buffer], position: int, flags: int) -> int:
        try:
            return os.pwritev(self._fd, buffers, position, flags)
        except OSError as error:
            if not flags or error.errno not in UNKNOWN_FLAG:
                raise
        written = os.pwritev(self._fd, buffers, position)  # nothing was written before
        self.sync()
        return written

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size


class RealDisk:
    """The machine's own file system, with a bounded number of files kept open or mapped.

    Readers in many threads share the cache without a lock. What keeps them from the wrong file is
    the generation: it is part of the key, is taken before a file is opened, and goes up after a
    name changed its meaning. So a file that was opened meanwhile is never found again.
    """

    def __init__(
        self, open_files_max: int = OPEN_FILES_MAX, let_go: Callable[[int], None] = os.close
    ) -> None:
        """`let_go` is given large files that have lost their names, open."""
        self._let_go = let_go
        self._open: dict[Key, RealFile | mmap.mmap] = {}
        self._open_files_max = open_files_max
        self._generations = [0] * GENERATIONS

    def open(self, path: Path, *, create: bool = False) -> File:
        key = self._key(path, mapped=False)
        file = self._open.pop(key, None)  # and in again below, at the young end
        if not isinstance(file, RealFile):
            file = RealFile(path, os.O_RDWR | (os.O_CREAT if create else 0))
        self._keep(key, file)
        return file

    def map(self, path: Path) -> Buffer:
        key = self._key(path, mapped=True)
        content = self._open.pop(key, None)
        if not isinstance(content, mmap.mmap):
            content = _mapped(path)
            if content is None:
                return b""
        self._keep(key, content)
        return content

    def rename(self, source: Path, target: Path) -> None:
        below = self._below(source) if source.is_dir() else []
        source.replace(target)
        self._changed(source, target, *below)

    def unlink(self, path: Path) -> None:
        held = hold(path)
        try:
            path.unlink(missing_ok=True)
        finally:
            self._changed(path)  # and the cache lets go of it
            if held is not None:
                self._let_go(held)

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def remove_folder(self, path: Path) -> None:
        self._changed(*self._below(path))
        remove_tree(path, self._let_go)
        self._changed(*self._below(path))

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

    # -- the cache -----------------------------------------------------------------------------

    def _key(self, path: Path, *, mapped: bool) -> Key:
        return path, mapped, self._generations[hash(path) % GENERATIONS]

    def _keep(self, key: Key, entry: RealFile | mmap.mmap) -> None:
        """Dict steps are atomic; two threads that miss together merely open twice."""
        self._open[key] = entry
        if self._key(key[0], mapped=key[1]) != key:
            self._open.pop(key, None)  # nobody would find it: it must not keep a file alive
        while len(self._open) > self._open_files_max:
            try:
                self._open.pop(next(iter(self._open)), None)
            except (RuntimeError, StopIteration):
                continue  # another thread was faster

    def _changed(self, *paths: Path) -> None:
        for path in paths:
            known = [self._key(path, mapped=mapped) for mapped in (False, True)]
            self._generations[hash(path) % GENERATIONS] += 1
            for key in known:
                self._open.pop(key, None)

    def _below(self, folder: Path) -> list[Path]:
        within = f"{folder}{os.sep}"  # as text: thousands are looked at for every folder that goes
        return [path for path, _, _ in list(self._open) if str(path).startswith(within)]


def _mapped(path: Path) -> mmap.mmap | None:
    """The file's content; None when there is none, which cannot be mapped."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        return mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else None
    finally:
        os.close(fd)


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
