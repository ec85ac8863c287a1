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

from stratamq.model.types import Offset, ShardName
from stratamq.tiering.mover.progress import Step
from stratamq.tiering.stores.options import StoreOptions
from tests.tiering.mover.rig import QUICK, SHARD, TIERED, Rig
from tests.tiering.stores.conftest import LIMITS
from tests.waiting import until

RECORDS = 110


DELETED = Offset(3)


async def main(
    folder: str, url: str, endpoint: str, stop_at: str | None, rate: int, delete: bool
) -> None:
    """With `delete`, everything is moved first, and then a record goes."""
    armed = not delete

    def kill(shard: ShardName, step: Step) -> None:
        if armed and step == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)

    options = StoreOptions(url=url, s3_endpoint=endpoint, s3_path_style=True, limits=LIMITS)
    limits = replace(QUICK, bytes_per_second=rate, rewrite_ms=0)
    async with Rig(Path(folder), options, limits=limits, on_step=kill) as rig:
        if not rig.topics:
            await rig.create({**TIERED, "tier.format": "parquet" if delete else "both"})
            await rig.fill(RECORDS)
        assert rig.engine.offsets(SHARD).end == RECORDS
        if delete:
            await rig.mover.run_once()
            await rig.engine.delete_by_offset(SHARD, DELETED)
            armed = True
        print("moving", flush=True)

        async def is_done() -> bool:
            return not (await rig.mover.run_once()).failures

        await until(is_done)
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
