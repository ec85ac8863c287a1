"""A shard's writer follows from its name, and nothing stored depends on how many there are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import WORKERS_MAX, EngineLimits
from stratamq.engine.pool import LANES
from stratamq.model.clock import ManualClock
from stratamq.model.types import ShardName
from tests.engine.conftest import ENGINES
from tests.engine.support import NOW, produced, read_all, record, spec, values
from tests.engine.test_pool import Gate, pool_of

SHARDS = [ShardName(f"{'0123456789abcdef' * 2}_{number}") for number in range(12)]
COUNTS = (1, 4, 3, WORKERS_MAX, 2)
ROUNDS = 5


async def append_all(engine: StorageEngine, name: ShardName, first: int) -> None:
    """Pipelined, so that only one writer per shard keeps them in order."""
    appends = [
        engine.append_batch(name, produced(record(b"%d" % number, b"key"), sequence=number))
        for number in range(first, first + ROUNDS)
    ]
    results = await asyncio.gather(*appends)
    assert [one.base_offset for one in results] == list(range(first, first + ROUNDS))


@pytest.mark.parametrize("flush", ["os", "sync"])
@pytest.mark.parametrize("kind", list(ENGINES))
async def test_a_node_may_have_another_count_of_workers_at_each_start(
    tmp_path: Path, kind: str, flush: str
) -> None:
    """Everything is read back, sequences of producers go on, and so do offsets."""
    for turn, workers in enumerate(COUNTS):
        limits = EngineLimits(workers=workers)
        engine = ENGINES[kind](tmp_path, clock=ManualClock(NOW), limits=limits)
        await engine.open()
        for name in SHARDS:
            await engine.create_shard(spec(name, flush=flush, memory_persist=True))
        await asyncio.gather(*(append_all(engine, name, turn * ROUNDS) for name in SHARDS))
        for name in SHARDS:
            expected = [b"%d" % number for number in range((turn + 1) * ROUNDS)]
            assert values(await read_all(engine, name)) == expected
            (newest,) = await engine.read_by_key(name, b"key")
            assert newest.value == expected[-1]
            await engine.roll(name)
        await engine.close()


async def test_shards_of_one_lane_stay_together() -> None:
    together: dict[int, list[ShardName]] = {}
    async with pool_of(Gate(), workers=LANES) as every:
        for number in range(4 * LANES):
            name = ShardName(f"topic_{number}")
            together.setdefault(every.lane_of(name), []).append(name)
    assert any(len(names) > 1 for names in together.values())
    for workers in range(1, LANES + 1):
        async with pool_of(Gate(), workers=workers) as pool:
            for names in together.values():
                assert len({pool.lane_of(name) for name in names}) == 1
