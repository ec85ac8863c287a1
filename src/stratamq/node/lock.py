"""One living process per data folder.

The lock is the kernel's (flock), so it ends with the process however that ends: nothing is stale
after `kill -9`. The process id inside the file is for people only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from stratamq.log.disk import RealDisk
from stratamq.model.errors import StorageError
from stratamq.node.own_file import check_own_file

LOCK_FILE = "LOCK"


class DataDirInUse(StorageError):
    """Another node, perhaps in this very process, has the folder open."""

    def __init__(self, data_dir: Path, pid: int | None) -> None:
        if pid == os.getpid():
            who = "this process"
        else:
            who = f"process {pid}" if pid else "another process"
        super().__init__(f"{data_dir} is in use by {who}; a folder has one node at a time")
        self.pid = pid


class DataDirLock:
    """Held from `acquire` to `release`, or to the end of the process."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._descriptor: int | None = None

    def acquire(self) -> None:
        assert self._descriptor is None, "acquired once"
        self._data_dir.mkdir(parents=True, exist_ok=True)
        path = self._data_dir / LOCK_FILE
        check_own_file(RealDisk(), path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(
                f"{path} cannot be opened: {os.strerror(error.errno or 0)}"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _pid_in(descriptor)
            os.close(descriptor)
            raise DataDirInUse(self._data_dir, pid) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """The file stays: deleting it would let two nodes lock two files of the same name."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Closing would not do while a child that was just forked still has a copy.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _pid_in(descriptor: int) -> int | None:
    with contextlib.suppress(ValueError):
        return int(os.pread(descriptor, 32, 0))
    return None
