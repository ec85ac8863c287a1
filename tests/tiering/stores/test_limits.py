"""What a store may use: threads and memory, however much is asked of it at once."""

from __future__ import annotations

import asyncio
import os
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.tiering.stores.attempts import Deadline
from stratamq.tiering.stores.directory import DirectoryBackend
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from tests.waiting import let_run_here

MIB = 1 << 20
LARGE_BYTES = 64 * MIB


class Crowd:
    """How many are inside at once, at most."""

    def __init__(self) -> None:
        self._lock, self._inside, self.most = threading.Lock(), 0, 0

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        let_run_here(0.02)
        yield
        with self._lock:
            self._inside -= 1


async def test_uploads_at_once(directory_options: StoreOptions, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    limits = replace(directory_options.limits, uploads_max=2)
    store = await open_store(replace(directory_options, limits=limits))
    crowd = Crowd()

    def pace(size: int) -> None:
        with crowd.inside():
            pass

    await asyncio.gather(*(store.put_file(f"k/{n}", path, pace=pace) for n in range(10)))
    assert crowd.most == 2
    await store.close()


async def test_reads_at_once_and_beside_uploads(
    directory_options: StoreOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uploads that wait for their turn keep no reader waiting."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    crowd, real, go = Crowd(), DirectoryBackend.read, threading.Event()

    def read(self: DirectoryBackend, key: str, start: int, stop: int, deadline: Deadline) -> bytes:
        with crowd.inside():
            return real(self, key, start, stop, deadline)

    monkeypatch.setattr(DirectoryBackend, "read", read)
    limits = replace(directory_options.limits, uploads_max=1, reads_max=3)
    store = await open_store(replace(directory_options, limits=limits))
    await store.put("k", b"bytes")
    held = asyncio.create_task(store.put_file("held", path, pace=lambda size: bool(go.wait(30))))
    found = await asyncio.gather(*(store.get_range("k", 0, 5) for _ in range(12)))
    assert found == [b"bytes"] * 12
    assert crowd.most == 3
    assert not held.done()
    go.set()
    await held
    await store.close()


@pytest.mark.parametrize("kind", ["directory", "s3"])
async def test_a_large_file_is_not_read_into_memory(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    options: StoreOptions = request.getfixturevalue(f"{kind}_options")
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, LARGE_BYTES)
    store = await open_store(
        replace(options, limits=replace(options.limits, uploads_max=1, reads_max=1))
    )
    await store.put("first", b"")  # what is loaded once is not counted
    tracemalloc.start()
    try:
        info = await store.put_file("large", path)
        size = 0
        async for piece in store.stream("large", info=info):
            size += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == LARGE_BYTES
    assert peak < LARGE_BYTES // 2, f"{peak / MIB:.0f} MiB"
    await store.close()
