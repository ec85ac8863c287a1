"""What the machine can do without us: bare write loops over the same bytes in the same groups."""

from __future__ import annotations

import os
import time
from pathlib import Path


def write_loop(folder: Path, batch: bytes, batches: int, group: int, *, sync: bool) -> float:
    """Batches per second of a loop that writes `group` batches at once, and syncs each time or
    never."""
    path = folder / "ceiling"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    buffers = [batch] * group
    begin = time.perf_counter()
    for _ in range(batches // group):
        os.writev(fd, buffers)
        if sync:
            os.fdatasync(fd)
    took = time.perf_counter() - begin
    os.close(fd)
    path.unlink()
    return batches // group * group / took
