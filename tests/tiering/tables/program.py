"""A small node that writes records and flushes them into a table, until it is killed.

`python -m tests.tiering.tables.program FOLDER URL`
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from stratamq.tiering.stores.options import StoreOptions
from tests.tiering.mover.rig import SHARD, TIERED
from tests.tiering.stores.conftest import LIMITS
from tests.tiering.tables.rig import TableRig


async def main(folder: str, url: str) -> None:
    options = StoreOptions(url=url, limits=LIMITS)
    async with TableRig(Path(folder), options, merge_files=3) as rig:
        topic = rig.topics[0] if rig.topics else await rig.create({**TIERED, "flush": "sync"})
        await rig.updater.start()
        for number in range(1000):
            await rig.fill(4, seed=rig.engine.offsets(SHARD).end + number)
            await rig.updater.flush(topic)
            print("flushed", flush=True)
            if number % 3 == 2:
                await rig.mover.run_once()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
