"""`kill -9` of a node that flushes, merges and moves: its table is what its log is."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from stratamq.tiering.stores.options import StoreOptions
from tests.tiering.mover.rig import SHARD
from tests.tiering.tables.rig import TableRig
from tests.waiting import let_run

ROOT = Path(__file__).parents[3]


async def killed(folder: Path, url: str, delay_s: float) -> None:
    """After it has flushed once, at any time."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.tiering.tables.program", str(folder), url),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert process.stdout
    assert await process.stdout.readline() == b"flushed\n"
    await let_run(delay_s)
    process.kill()
    await process.communicate()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.long)])
async def test_killed_at_any_time_nothing_is_lost_or_doubled(
    tmp_path: Path, directory_options: StoreOptions, kills: int
) -> None:
    for _ in range(kills):
        await killed(tmp_path, directory_options.url, random.uniform(0, 1.5))
    async with TableRig(tmp_path, directory_options, merge_files=3) as rig:
        topic = rig.topics[0]
        await rig.updater.start()
        await rig.updater.flush(topic)
        rows = await rig.all_rows()
        assert (await rig.table(topic)).rows == len(rows) == rig.engine.offsets(SHARD).end
        manifest = await rig.manifest(topic)
        assert manifest.rows == len(rows)
        await rig.mover.run_once()
        named = {one.key for file in rig.files() for one in file.objects}
        assert {key for key in await rig.objects() if "/data/" in key} == named
        assert not list(rig.early.work_folder.glob("*"))
