"""A small node that moves segments until it is killed, by itself at a step or by somebody else.

`python -m tests.tiering.mover.program '{"folder": …, "url": …, "endpoint": …, "stop_at": …}'`
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from stratamq.model.types import ShardName
from stratamq.tiering.mover.progress import Step
from stratamq.tiering.mover.steps import OnStep
from stratamq.tiering.stores.options import StoreOptions
from tests.tiering.mover.rig import QUICK, SHARD, TIERED, Rig
from tests.tiering.stores.conftest import LIMITS

RECORDS = 110


def killer(stop_at: str | None) -> OnStep:
    def kill(shard: ShardName, step: Step) -> None:
        if step == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


async def main(folder: str, url: str, endpoint: str, stop_at: str | None, rate: int) -> None:
    options = StoreOptions(url=url, s3_endpoint=endpoint, s3_path_style=True, limits=LIMITS)
    limits = replace(QUICK, bytes_per_second=rate)
    rig = Rig(Path(folder), options, limits=limits, on_step=killer(stop_at))
    async with rig:
        if not rig.topics:
            await rig.create({**TIERED, "tier.format": "both"})
            await rig.fill(RECORDS)
        assert rig.engine.offsets(SHARD).end == RECORDS
        print("moving", flush=True)
        while (await rig.mover.run_once()).failures:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
