"""A process that runs out of descriptors while an engine works, and gets them back.

Run by `test_descriptors.py` with an engine's name and a folder. Whatever is wrong ends it with a
traceback; it prints how many calls were refused meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from stratamq.engine.engine import StorageEngine
from stratamq.engine.limits import EngineLimits
from stratamq.model.errors import TooManyOpenFiles
from stratamq.model.types import Offset, ShardName
from tests.engine.conftest import ENGINES
from tests.engine.support import read_all, record, spec, values

SHARDS = [ShardName(f"topic_{number}") for number in range(6)]
NEW = ShardName("new_0")
LIMITS = EngineLimits(workers=2, reader_threads=2)
VALUE_BYTES = 20_000
"""Large enough for RocksDB to need new files while there are none."""

ROUNDS = 60


class Hog:
    """Takes every descriptor that the process has left."""

    def __init__(self) -> None:
        used = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8, self._limits[1]))
        self._taken: list[int] = []

    def take(self) -> None:
        try:
            while True:
                self._taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return

    def give_back(self) -> None:
        for fd in self._taken:
            os.close(fd)
        self._taken.clear()
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)


class Life:
    """What was acknowledged, and how many calls were refused."""

    def __init__(self, engine: StorageEngine, hog: Hog) -> None:
        self.engine, self.hog = engine, hog
        self.stored: dict[ShardName, list[bytes]] = {name: [] for name in SHARDS}
        self.refused = self.succeeded = 0

    async def write(self, name: ShardName, number: int) -> None:
        value = (b"%d:" % number).ljust(VALUE_BYTES, b"v")
        await self.engine.write(name, record(value, b"%d" % number))
        self.stored[name].append(value)

    async def starved(self, call: Callable[[], Awaitable[object]]) -> None:
        """A call without descriptors: it succeeds, or is refused by name and may be repeated."""
        self.hog.take()
        try:
            await call()
            self.succeeded += 1
        except TooManyOpenFiles:
            self.refused += 1

    async def check(self) -> None:
        """All that was acknowledged is there, in order, and nothing that was refused."""
        for name, wanted in self.stored.items():
            found = [value for value in values(await read_all(self.engine, name)) if value]
            assert found == wanted, name


async def starve(life: Life) -> None:
    engine = life.engine
    for number in range(ROUNDS):
        for name in SHARDS:
            await life.starved(lambda name=name, number=number: life.write(name, 100 + number))
            await life.starved(lambda name=name: engine.read_by_offset(name, Offset(0)))
        name = SHARDS[number % len(SHARDS)]
        await life.starved(lambda name=name: engine.roll(name))
        await life.starved(lambda name=name: engine.delete_by_offset(name, Offset(0)))
        await life.starved(lambda name=name: engine.compact(name))
        await life.starved(lambda name=name: engine.apply_retention(name))
        await life.starved(lambda: engine.create_shard(spec(NEW)))
        await life.starved(lambda: engine.delete_shard(NEW))


async def live(kind: str, data_dir: Path) -> tuple[int, int]:
    engine = ENGINES[kind](data_dir, limits=LIMITS)
    await engine.open()
    for name in SHARDS:
        await engine.create_shard(spec(name, segment_bytes=300_000, memory_persist=True))
    life = Life(engine, Hog())
    for name in SHARDS:
        await life.write(name, 0)
        await life.write(name, 1)
    await starve(life)
    life.hog.give_back()
    for name in SHARDS:
        await engine.delete_by_offset(name, Offset(0))  # if that was refused all the time
        life.stored[name].pop(0)
    await life.check()
    for number in range(3):
        for name in SHARDS:
            await life.write(name, 1000 + number)
            await engine.roll(name)
            await engine.compact(name)
    await engine.create_shard(spec(NEW))
    await engine.delete_shard(NEW)
    await life.check()
    await engine.close()
    life.engine = engine = ENGINES[kind](data_dir, limits=LIMITS)
    await engine.open()
    await life.check()
    await engine.close()
    return life.succeeded, life.refused


if __name__ == "__main__":
    print(*asyncio.run(live(sys.argv[1], Path(sys.argv[2]))))
