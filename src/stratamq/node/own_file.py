"""Reading the node's own small files in the data folder."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from stratamq.model.errors import StorageError


def read_own_file(path: Path) -> bytes | None:
    """The content; None where there is no such file. A folder, a pipe or a device of that name is
    refused by name: reading a pipe would wait for ever, and the node must not remove it."""
    check_own_file(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from error


def check_own_file(path: Path) -> None:
    """StorageError when something that is no file has the name."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ENOENT:
            return
        raise StorageError(
            f"{path} cannot be looked at: {os.strerror(error.errno or 0)}"
        ) from error
    if not stat.S_ISREG(mode):
        kind = "folder" if stat.S_ISDIR(mode) else "pipe, socket or device"
        raise StorageError(
            f"{path} is a {kind}, and the node needs a file of that name: move it away, and bring"
            " the file back if you have it"
        )
