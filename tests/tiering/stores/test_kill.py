"""A process that is killed in the middle of its puts leaves whole objects and nothing else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions
from tests.waiting import let_run_here

REPEATS = 700_000
WRITER = f"""
import asyncio, sys, time
from pathlib import Path
from stratamq.tiering.stores.opening import open_store
from stratamq.tiering.stores.options import StoreOptions

async def main():
    store = await open_store(StoreOptions(url=sys.argv[1]))
    path = Path(sys.argv[2])
    for n in range(1_000_000):
        path.write_bytes(b"%06d" % n * {REPEATS})
        for key in ("new/%d" % n, "same"):
            await store.put_file(key, path, pace=lambda size: time.sleep(0.01))
            print(key, flush=True)

asyncio.run(main())
"""


def write_and_be_killed(url: str, path: Path, after_s: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, url, path],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    )
    assert process.stdout
    assert process.stdout.readline() == b"new/0\n"
    let_run_here(after_s)
    process.kill()
    process.communicate()


@pytest.mark.parametrize("after_s", [0.02, 0.12, 0.31])
async def test_killed(directory_options: StoreOptions, tmp_path: Path, after_s: float) -> None:
    path = tmp_path / "segment"
    await asyncio.to_thread(write_and_be_killed, directory_options.url, path, after_s)
    store = await open_store(directory_options)
    found = [each async for each in store.list()]
    assert found
    for each in found:
        assert (await store.head(each.key)).sums
        data = b"".join([piece async for piece in store.stream(each.key)])
        assert data == data[:6] * REPEATS
    assert await store.sweep(int(time.time() * 1000) + 60_000) <= 1
    await store.put("same", b"goes on")
    await store.close()
