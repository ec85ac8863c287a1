"""A machine of a simulation. It dies at any moment, also in the middle of a call to its disk, and
comes back with what its disk kept.

A life has a disk object, stores and a context of its own. What ran in a life that has ended never
runs again: the event loop drops its callbacks, its disk and stores refuse. The dead are kept until
the world ends, since coroutines that are collected run their `finally`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from stratamq.log.kv import KVStore
from stratamq.model.damage import LOGGER
from stratamq.model.types import TimestampMs
from stratamq.node.data_dir import DamageFile
from stratamq.node.doors import Doors
from tests.simulation.loop import HOST
from tests.simulation.pool import SimPool
from tests.twins.disk import Call, Crash, Power, SimDisk
from tests.twins.kv import Loss, SimKV
from tests.twins.machine import DiskSpace, FolderLock

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
CUT_LOSSES = (Loss.NOTHING, Loss.SUFFIX, Loss.UNSYNCED)


class Host:
    """Made by `World.host`, and made again by `next_life`."""

    def __init__(self, world: World, name: str, life: int = 0) -> None:
        self.world, self.name, self.life = world, name, life
        self.is_dead = False
        self.death = asyncio.Event()
        self.skew_ms = 0
        """How far its clock is ahead of the world's time."""
        self.disk = SimDisk()
        self.stores: dict[tuple[Path, str], SimKV] = {}
        self._context = contextvars.copy_context()
        self._context.run(HOST.set, self)
        self._watch_disk()

    def __str__(self) -> str:
        return f"{self.name}.{self.life}"

    def now_ms(self) -> TimestampMs:
        """Clock."""
        return TimestampMs(EPOCH_MS + self.skew_ms + int(self.world.loop.time() * 1000))

    def task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.world.loop.create_task(work, context=self._context)

    def doors(self) -> Doors:
        return Doors(
            clock=self,
            now_s=self.world.loop.time,
            entropy=Random(f"{self.world.seed}/{self}").randbytes,
            disk=self.disk,
            open_kv=self.open_kv,
            pool=SimPool,
            lock=lambda folder: FolderLock(self.disk, folder),
            disk_usage=lambda folder: DiskSpace(1 << 40, 1 << 39),
        )

    def open_kv(self, path: Path, family: str = "default", *_: object, **__: object) -> KVStore:
        """As RocksDB does it: the folder has a file, and its name is synced too."""
        current, key = path / "CURRENT", (path, family)
        known = self.stores.get(key) if self.disk.exists(current) else None
        self.disk.make_folder(path)
        self.disk.open(current, create=True).sync()
        for folder in (path, path.parent):
            self.disk.sync_folder(folder)
        if known is None or known.is_closed:
            known = SimKV(known.rows() if known is not None else {})
            known.before_write = self._before_row
        self.stores[key] = known
        return known

    # -- death -----------------------------------------------------------------------------------

    def _watch_disk(self) -> None:
        self.disk.trouble = self._before_call
        self._dies_after: int | None = None

    def _before_call(self, call: Call) -> BaseException | None:
        self.world.loop.trace("disk", str(self), call.kind, str(call.path))
        if self._dies_after is not None:
            self._dies_after -= 1
            if self._dies_after < 0 and not self.is_dead:
                self.disk.written_part = self.world.chance.random()
                self.die()
        return Crash() if self.is_dead else None

    def _before_row(self, sync: bool) -> None:
        self.world.loop.trace("rows", str(self), str(sync))
        if self.is_dead:
            raise Crash

    def die_at_call(self, calls: int) -> None:
        """In the middle of that call to the disk, counted from now."""
        self._dies_after = calls

    def survive(self) -> None:
        """Whatever `die_at_call` said."""
        self._dies_after = None

    def die(self) -> None:
        """The process ends here. What it had written is with the kernel, see `next_life`."""
        if self.is_dead:
            return
        self.world.loop.trace("dies", str(self))
        self.is_dead = True
        self.death.set()
        self.world.network.died(self)
        self.world.dead.append(self)
        for handler in list(LOGGER.handlers):  # of its damage file; loggers are the process's
            if isinstance(handler, DamageFile) and handler.disk is self.disk:
                LOGGER.removeHandler(handler)

    def next_life(self, power: Power) -> Host:
        """The machine started again. `power` is what became of what was not synced."""
        assert self.is_dead
        next_host = Host(self.world, self.name, self.life + 1)
        chance = self.world.chance
        next_host.disk = self.disk.after_crash(power, chance)
        loss = Loss.KILLED if power is Power.KILLED else chance.choice(CUT_LOSSES)
        next_host.stores = {key: kv.after_crash(loss, chance) for key, kv in self.stores.items()}
        for kv in next_host.stores.values():
            kv.before_write = next_host._before_row
        next_host._watch_disk()
        self.world.network.hosts[self.name] = next_host
        return next_host


logging.getLogger("stratamq").addHandler(logging.NullHandler())
