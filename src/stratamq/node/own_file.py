"""Reading the node's own small files in the data folder."""

from __future__ import annotations

import os
from pathlib import Path

from stratamq.log.disk import Disk, read_all
from stratamq.model.errors import StorageError


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
