"""Every test that asks for `engine` runs on every engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.engine.memory.engine import EngineMemory
from stratamq.engine.rocksdb.engine import EngineRocksDB
from stratamq.engine.segment.engine import EngineSegment
from stratamq.model.clock import ManualClock
from tests.engine.support import NOW

ENGINES: dict[str, Callable[..., StorageEngine]] = {
    "memory": EngineMemory,
    "rocksdb": EngineRocksDB,
    "segment": EngineSegment,
}
DURABLE = ("rocksdb", "segment")
LIMITS = EngineLimits(workers=2, reader_threads=2, decompressed_bytes_max=1 << 20)


@dataclass
class House:
    """A place where an engine lives, so that it can be closed and opened again."""

    kind: str
    data_dir: Path
    clock: ManualClock
    engine: StorageEngine

    async def reopen(self) -> StorageEngine:
        await self.engine.close()
        self.engine = ENGINES[self.kind](self.data_dir, clock=self.clock, limits=LIMITS)
        await self.engine.open()
        return self.engine


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


async def _live_in(kind: str, data_dir: Path, clock: ManualClock) -> AsyncIterator[House]:
    house = House(kind, data_dir, clock, ENGINES[kind](data_dir, clock=clock, limits=LIMITS))
    await house.engine.open()
    yield house
    await house.engine.close()


@pytest.fixture(params=list(ENGINES))
async def engine(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[StorageEngine]:
    async for house in _live_in(request.param, tmp_path, clock):
        yield house.engine


@pytest.fixture(params=DURABLE)
async def house(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[House]:
    async for home in _live_in(request.param, tmp_path, clock):
        yield home
