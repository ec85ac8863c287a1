"""Removing large files a little at a time.

Closing the last handle of an unlinked file frees its blocks: about ten milliseconds for 64 MB, in
one call that keeps a processor busy. So the code that removes a large file opens it first (`hold`)
and shortens it step by step afterwards (`free`). A file that another reader has open, in any
process, is left as it is: that reader's own last handle ends it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

STEP_BYTES = 1 << 20
PAUSE_S = 0.001
"""A thread that goes from call to call takes the GIL back before waiting threads have woken up. So
it sleeps between two steps."""

SET_LEASE: int | None = getattr(fcntl, "F_SETLEASE", None)
"""Linux grants a lease for writing only on a file that is open once."""


def hold(path: Path) -> int | None:
    """A descriptor of a file that is about to be removed; None for a small one, which is freed at
    once, and where no descriptor is left."""
    with suppress(OSError):
        if SET_LEASE is not None and path.lstat().st_size > STEP_BYTES:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    return None


def free(fd: int) -> None:
    """Close a descriptor. If it is the last of a removed file, shorten the file before, slowly."""
    try:
        if _is_alone(fd):
            for size in range(os.fstat(fd).st_size - STEP_BYTES, 0, -STEP_BYTES):
                os.ftruncate(fd, size)
                time.sleep(PAUSE_S)
    finally:
        os.close(fd)


def _is_alone(fd: int) -> bool:
    """Whether the file has no name and no process has it open or mapped besides."""
    if os.fstat(fd).st_nlink or SET_LEASE is None:
        return False
    try:
        fcntl.fcntl(fd, SET_LEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    fcntl.fcntl(fd, SET_LEASE, fcntl.F_UNLCK)
    return True


def remove_tree(folder: Path, free_with: Callable[[int], None] = free) -> None:
    """Remove a folder and all below it, if it exists."""
    with suppress(FileNotFoundError):
        for found in list(os.scandir(folder)):
            path = Path(found.path)
            if found.is_dir(follow_symlinks=False):
                remove_tree(path, free_with)
            else:
                remove_file(path, free_with)
        folder.rmdir()


def remove_file(path: Path, free_with: Callable[[int], None] = free) -> None:
    """Remove a file, if it exists."""
    fd = hold(path)
    try:
        path.unlink(missing_ok=True)
    finally:
        if fd is not None:
            free_with(fd)


def clear_away(folder: Path) -> None:
    """As `remove_tree`, but failures are ignored: for temporary files."""
    with suppress(OSError):
        remove_tree(folder)
