"""What the machine can do without us: bare write loops over the same bytes in the same groups."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path


def write_loop(
    folder: Path, sent: Sequence[bytes], batches: int, group: int, *, sync: bool
) -> float:
    """Batches per second of a loop that writes `group` of those in `sent` at once, in turn, and
    syncs each time or never."""
    os.sync()  # what others have written is not ours to wait for
    path = folder / "ceiling"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    turns = cycle(_groups(sent, group))
    begin = time.perf_counter()
    for _ in range(batches // group):
        os.writev(fd, next(turns))
        if sync:
            os.fdatasync(fd)
    took = time.perf_counter() - begin
    os.close(fd)
    path.unlink()
    return batches // group * group / took


def _groups(sent: Sequence[bytes], size: int) -> list[list[bytes]]:
    """As many different groups as there are batches for."""
    endless = cycle(sent)
    return [[next(endless) for _ in range(size)] for _ in range(max(len(sent) // size, 1))]
