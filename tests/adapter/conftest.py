"""Where these tests keep their files: in memory, on machines with such a place. They are about what
happens in which order, and on a disk most of their time would go into syncs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30


def in_memory() -> Path | None:
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
        return MEMORY
    return None


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stratamq-", dir=in_memory()) as folder:
        yield Path(folder)
