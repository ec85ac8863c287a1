"""`kill -9` at every step and at any time: nothing lost, nothing doubled, nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.tiering.mover.progress import Step
from stratamq.tiering.stores.options import StoreOptions
from tests.tiering.mover.program import DELETED, RECORDS
from tests.tiering.mover.rig import QUICK, Rig, Rows
from tests.tiering.stores.proxy import Fault, proxy_to
from tests.waiting import let_run

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other

ROOT = Path(__file__).parents[3]
RATE = 60_000
"""So that a process that is killed at any time is killed in the middle of something."""


async def start(
    folder: Path,
    options: StoreOptions,
    stop_at: Step | None = None,
    *,
    rate: int = 0,
    delete: bool = False,
) -> asyncio.subprocess.Process:
    told = {
        "folder": str(folder),
        "url": options.url,
        "endpoint": options.s3_endpoint,
        "stop_at": stop_at,
        "rate": rate,
        "delete": delete,
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.tiering.mover.program", json.dumps(told)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )


async def killed_at(
    folder: Path, options: StoreOptions, step: Step, *, delete: bool = False
) -> None:
    process = await start(folder, options, step, delete=delete)
    said, _ = await process.communicate()
    assert process.returncode == -9, said


async def killed_after(folder: Path, options: StoreOptions, delay_s: float) -> None:
    process = await start(folder, options, rate=RATE)
    assert process.stdout
    assert await process.stdout.readline() == b"moving\n"
    await let_run(delay_s)
    with suppress(ProcessLookupError):  # a quick machine was done before
        process.kill()
    await process.communicate()


async def expected(folder: Path, options: StoreOptions) -> Rows:
    """The same records, written to a place of their own."""
    async with Rig(folder, options) as rig:
        await rig.create()
        return await rig.fill(RECORDS)


async def all_is_there(folder: Path, options: StoreOptions, rows: Rows) -> None:
    async with Rig(folder, options) as rig:
        assert await rig.all_rows() == rows


async def ends_well(folder: Path, options: StoreOptions, rows: Rows) -> None:
    async with Rig(folder, options) as rig:
        await rig.settled()
        assert await rig.all_rows() == rows


@pytest.mark.parametrize(
    ("place", "steps"),
    [("directory", list(Step)), ("s3", [Step.UPLOAD, Step.VERIFY, Step.COMMIT])],
)
async def test_at_every_step(
    place: str,
    steps: list[Step],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    directory_options: StoreOptions,
) -> None:
    options: StoreOptions = request.getfixturevalue(f"{place}_options")
    rows = await expected(tmp_path / "other", directory_options)
    folder = tmp_path / "node"
    for step in steps:
        await killed_at(folder, options, step)
        await all_is_there(folder, options, rows)
    await ends_well(folder, options, rows)


@pytest.mark.parametrize("place", ["directory", pytest.param("s3", marks=pytest.mark.long)])
async def test_at_any_time(
    place: str, request: pytest.FixtureRequest, tmp_path: Path, directory_options: StoreOptions
) -> None:
    options: StoreOptions = request.getfixturevalue(f"{place}_options")
    rows = await expected(tmp_path / "other", directory_options)
    folder = tmp_path / "node"
    for _ in range(3):
        await killed_after(folder, options, random.uniform(0, 2.0))
        await all_is_there(folder, options, rows)
    await ends_well(folder, options, rows)


@pytest.mark.parametrize("step", [Step.VERIFY, Step.ATTACH])
async def test_while_a_file_is_made_anew(
    step: Step, directory_options: StoreOptions, tmp_path: Path
) -> None:
    """Before and after the moment that counts."""
    rows = await expected(tmp_path / "other", directory_options)
    del rows[DELETED]
    folder = tmp_path / "node"
    await killed_at(folder, directory_options, step, delete=True)
    await all_is_there(folder, directory_options, rows)
    limits = replace(QUICK, rewrite_ms=0)
    async with Rig(folder, directory_options, limits=limits) as rig:
        await rig.settled()
        assert await rig.all_rows() == rows
        assert DELETED not in await rig.cold_rows()
        assert rig.mover.status().totals.files_rewritten == (step is Step.VERIFY)


async def test_with_a_store_that_fails_now_and_then(
    s3_options: StoreOptions, directory_options: StoreOptions, tmp_path: Path
) -> None:
    rows = await expected(tmp_path / "other", directory_options)
    folder = tmp_path / "node"
    faults = [Fault.LOSE_ANSWER, Fault.BUSY_503, Fault.TRUNCATE]
    async with proxy_to(s3_options.s3_endpoint) as (proxy, address):
        through = StoreOptions(
            url=s3_options.url, s3_endpoint=address, s3_path_style=True, limits=s3_options.limits
        )
        for fault in faults:
            proxy.spoil(only=lambda _: random.random() < 0.3, ever=fault)
            await killed_after(folder, through, random.uniform(0.5, 1.5))
            await all_is_there(folder, s3_options, rows)
        proxy.spoil(only=lambda _: random.random() < 0.2, ever=Fault.WRONG_ANSWER)
        process = await start(folder, through)
        said, _ = await process.communicate()
        assert said.endswith(b"done\n")
    await ends_well(folder, s3_options, rows)
