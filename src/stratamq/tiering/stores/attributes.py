"""Extended attributes of files, where there are any: Linux, on most of its file systems."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_NONE = {errno.ENODATA, errno.ENOTSUP, errno.EPERM}


def write_attribute(path: Path, name: str, value: str) -> bool:
    """False if this system or file system has no such thing."""
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
