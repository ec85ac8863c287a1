"""The node's own small files in the data folder: its lock, and the damage it has found.

The lock is the kernel's (flock), so it ends with the process however that ends: nothing is stale
after `kill -9`. The process id inside the file is for people only.

Damage is a line each, in `damage.jsonl`, which `stratamq doctor` reads. A start begins the file
again: what is still damaged is found again.

    {"at": "2026-01-31T12:00:00+00:00", "found": ".../00000000000000000045.log: missing; ..."}
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from stratamq.log.disk import Disk, RealDisk, read_all
from stratamq.model.damage import LOGGER, forget_reports
from stratamq.model.errors import StorageError
from stratamq.node.layout import DAMAGE_FILE, LOCK_FILE, take_folder


def read_own_file(disk: Disk, path: Path) -> bytes | None:
    """The content; None where there is no such file. A folder, a pipe or a device of that name is
    refused by name: reading a pipe would wait for ever, and the node must not remove it."""
    check_own_file(disk, path)
    try:
        return read_all(disk, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from error


def check_own_file(disk: Disk, path: Path) -> None:
    """StorageError when something that is no file has the name."""
    try:
        if disk.is_file(path) or not disk.exists(path):
            return
        kind = "folder" if disk.is_folder(path) else "pipe, socket or device"
    except OSError as error:
        raise StorageError(
            f"{path} cannot be looked at: {os.strerror(error.errno or 0)}"
        ) from error
    raise StorageError(
        f"{path} is a {kind}, and the node needs a file of that name: move it away, and bring the"
        " file back if you have it"
    )


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
        take_folder(self._data_dir)
        path = self._data_dir / LOCK_FILE
        check_own_file(RealDisk(), path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(
                f"{path} cannot be opened: {os.strerror(error.errno or 0)}"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = None
            with contextlib.suppress(ValueError):
                pid = int(os.pread(descriptor, 32, 0))
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


DAMAGE_BYTES_MAX = 1 << 20
"""A longer file is not written to any more: the log goes on."""


class DamageFile(logging.Handler):
    """Appends what is logged as damage. A full disk costs the line and nothing else."""

    def __init__(self, disk: Disk, data_dir: Path) -> None:
        super().__init__(logging.ERROR)
        self.disk, self._path = disk, data_dir / DAMAGE_FILE

    def emit(self, record: logging.LogRecord) -> None:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="seconds")
        line = json.dumps({"at": at, "found": record.getMessage()})
        with suppress(OSError):
            file = self.disk.open(self._path, create=True)
            if (end := file.size()) < DAMAGE_BYTES_MAX:
                file.write([line.encode() + b"\n"], end)


@contextmanager
def damage_file(disk: Disk, data_dir: Path) -> Iterator[None]:
    """Keep the file while the node runs; its lines stay when the node stops."""
    check_own_file(disk, data_dir / DAMAGE_FILE)
    disk.unlink(data_dir / DAMAGE_FILE)
    forget_reports()
    handler = DamageFile(disk, data_dir)
    LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)


def read_damage(data_dir: Path) -> list[str]:
    """What the node on this folder has found since it was started last."""
    try:
        lines = (data_dir / DAMAGE_FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found: list[str] = []
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            found.append(str(json.loads(line)["found"]))
    return found
