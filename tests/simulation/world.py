"""Hosts, a network between them, and one seed for all that is left to chance."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from unittest.mock import patch

from stratamq.model.config import load
from stratamq.node.core import NodeCore
from stratamq.node.kafka import KafkaFront
from tests.simulation.host import EPOCH_MS, Host
from tests.simulation.loop import SimLoop
from tests.simulation.network import Network

T = TypeVar("T")

DATA = Path("/data")
PORT = 9092


class World:
    """A context: within it, time and entropy of the whole process are the simulation's."""

    def __init__(self, seed: int | str) -> None:
        self.seed = str(seed)
        self.loop = SimLoop(self.seed)
        self.network = Network(self.loop, self.seed)
        self.loop.network = self.network
        self.chance = random.Random(f"{self.seed}/world")
        self.dead: list[Host] = []
        self._patches = ExitStack()

    def host(self, name: str) -> Host:
        host = Host(self, name)
        host.disk.make_folder(DATA)
        host.disk.sync_folder(Path("/"))
        self.network.hosts[name] = host
        return host

    def run(self, host: Host, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(host.task(work))

    def __enter__(self) -> Self:
        entropy = random.Random(f"{self.seed}/entropy").randbytes
        now_s, enter = self.loop.time, self._patches.enter_context
        for name in ("monotonic", "perf_counter", "thread_time"):
            enter(patch.object(time, name, now_s))
        enter(patch.object(time, "time", lambda: EPOCH_MS / 1000 + now_s()))
        enter(patch.object(time, "time_ns", lambda: EPOCH_MS * 1_000_000 + int(now_s() * 1e9)))
        enter(patch.object(os, "urandom", entropy))
        enter(patch.object(random, "_urandom", entropy))
        self._patches.callback(random.setstate, random.getstate())
        random.seed(f"{self.seed}/module")
        asyncio.set_event_loop(self.loop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.set_event_loop(None)
        self._patches.close()
        self.loop.close()
        # Coroutines of the dead are collected here, where nobody minds what their `finally` does.
        with patch.object(sys, "unraisablehook", lambda unraisable: None):
            self.dead.clear()
            self.network.hosts.clear()
            self.loop.forget()
            gc.collect()


class Node:
    """A node and its Kafka front on a host, life after life."""

    def __init__(self, world: World, number: int, **settings: object) -> None:
        self.number, self._settings = number, settings
        self.host = world.host(f"n{number}")
        self._core: NodeCore | None = None
        self._front: KafkaFront | None = None

    @property
    def is_up(self) -> bool:
        return self._front is not None and not self.host.is_dead

    async def start(self) -> None:
        await self.host.task(self._start())

    async def _start(self) -> None:
        flags = {
            "data.dir": str(DATA),
            "host": self.host.name,
            "kafka.port": PORT,
            "kafka.advertised.host": self.host.name,
            "node.id": self.number,
            "io.workers": 2,
            **{name.replace("_", "."): value for name, value in self._settings.items()},
        }
        core = NodeCore(load(flags=flags), doors=self.host.doors())
        await core.start()
        front = KafkaFront(core.config, core)
        await front.start()
        self._core, self._front = core, front

    async def stop(self) -> None:
        assert self._core is not None
        assert self._front is not None
        front, core, self._front = self._front, self._core, None
        await self.host.task(front.stop())
        await self.host.task(core.stop())
