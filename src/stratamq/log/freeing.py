"""Large files go a little at a time.

The last one who lets go of a file that has no name any more pays for its end: a file system takes
ten milliseconds to free 64 MB, in one call, and the processor serves nobody else meanwhile. So
whoever removes a file keeps hold of it (`hold`) and then shortens it step by step (`free`). Only
when nobody else has it: a reader who still does reads on, and its end is his to pay for.
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
"""A thread that goes from call to call has the interpreter back before those who wait for it have
woken up. So it sleeps in between."""

SET_LEASE: int | None = getattr(fcntl, "F_SETLEASE", None)
"""Linux grants a lease for writing only on a file that is open once."""


def hold(path: Path) -> int | None:
    """A file that is about to lose its name, open, if its end is worth the trouble."""
    with suppress(OSError):
        if SET_LEASE is not None and path.lstat().st_size > STEP_BYTES:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    return None


def free(fd: int) -> None:
    """Let go of a file that was held. Takes its time."""
    try:
        if _is_alone(fd):
            for size in range(os.fstat(fd).st_size - STEP_BYTES, 0, -STEP_BYTES):
                os.ftruncate(fd, size)
                time.sleep(PAUSE_S)
    finally:
        os.close(fd)


def _is_alone(fd: int) -> bool:
    """Whether the file has no name and nobody else has it open or mapped, in any process."""
    if os.fstat(fd).st_nlink or SET_LEASE is None:
        return False
    try:
        fcntl.fcntl(fd, SET_LEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    fcntl.fcntl(fd, SET_LEASE, fcntl.F_UNLCK)
    return True


def remove_tree(folder: Path, let_go: Callable[[int], None] = free) -> None:
    """A folder and all below it, if it is there."""
    with suppress(FileNotFoundError):
        for found in list(os.scandir(folder)):
            path = Path(found.path)
            if found.is_dir(follow_symlinks=False):
                remove_tree(path, let_go)
            else:
                remove_file(path, let_go)
        folder.rmdir()


def remove_file(path: Path, let_go: Callable[[int], None] = free) -> None:
    """A file, if it is there."""
    fd = hold(path)
    try:
        path.unlink(missing_ok=True)
    finally:
        if fd is not None:
            let_go(fd)


def clear_away(folder: Path) -> None:
    """As `remove_tree`, as far as it can be done: for what is in nobody's way."""
    with suppress(OSError):
        remove_tree(folder)
