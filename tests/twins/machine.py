"""A machine for a whole node: the doors of `stratamq.node.doors`, with twins behind all of them.

    machine = Machine()
    core = NodeCore(config, doors=machine.doors())

Everything runs on one thread if the event loop is an `OneThreadLoop`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

from stratamq.engine.pool import IOPool, Request
from stratamq.log.kv import KVBatch, KVStore
from stratamq.model.clock import ManualClock
from stratamq.node.doors import Doors
from tests.twins.disk import SimDisk
from tests.twins.kv import Change, SimBatch, SimKV

T = TypeVar("T")


class Machine:
    """A disk, the key-value stores on it, a clock that stands still, and chance by a seed."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimDisk()
        self.clock = ManualClock()
        self.stores: dict[Path, SimKV] = {}
        self.writes: list[tuple[Path, list[Change]]] = []
        """What was written to the key-value stores, batch by batch."""
        self._chance = Random(seed)

    def doors(self) -> Doors:
        return Doors(
            clock=self.clock,
            now_s=lambda: 0.0,
            entropy=self._chance.randbytes,
            disk=self.disk,
            open_kv=self.open_kv,
            pool=LoopPool,
            lock=lambda folder: FolderLock(self.disk, folder),
            disk_usage=lambda folder: DiskSpace(1 << 40, 1 << 39),
        )

    def open_kv(self, path: Path, family: str = "default", *_: object, **__: object) -> KVStore:
        """As RocksDB does, it has a file in its folder: where that is gone, the rows are too."""
        current = path / "CURRENT"
        rows = self.stores[path].rows() if self.disk.exists(current) else {}
        self.disk.make_folder(path)
        self.disk.open(current, create=True)
        self.stores[path] = store = TracedKV(rows, lambda one: self.writes.append((path, one)))
        return store


class TracedKV(SimKV):
    def __init__(self, rows: dict[bytes, bytes], trace: Callable[[list[Change]], None]) -> None:
        super().__init__(rows)
        self._trace = trace

    def write(self, batch: KVBatch, *, sync: bool = False) -> None:
        super().write(batch, sync=sync)
        assert isinstance(batch, SimBatch)
        self._trace(batch.changes)


class DiskSpace(NamedTuple):
    total: int
    free: int


class FolderLock:
    """Makes the folder, as the real lock does. Nobody else is there to be kept out."""

    def __init__(self, disk: SimDisk, folder: Path) -> None:
        self._disk, self._folder = disk, folder

    def acquire(self) -> None:
        self._disk.make_folder(self._folder)

    def release(self) -> None:
        pass


class LoopQueue:
    """A worker's queue that calls the worker when something comes, and ends it when it is empty."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._items: deque[Request | None] = deque()
        self._wake = wake

    def put(self, item: Request | None) -> None:
        self._items.append(item)
        self._wake()

    def get(self) -> Request | None:
        return self._items.popleft() if self._items else None

    get_nowait = get

    def qsize(self) -> int:
        return len(self._items)


class LoopPool(IOPool):
    """The real pool, with its batching and its commits; its workers and readers take their turns
    on the event loop instead of on threads."""

    def start(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        for lane in self._lanes:
            lane.queue = LoopQueue(  # type: ignore[assignment]
                lambda lane=lane: loop.call_soon(self._work, lane)  # type: ignore[misc]
            )

    def call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return _done(asyncio.get_running_loop(), work)


class OneThreadLoop(asyncio.SelectorEventLoop):
    """What others do on threads is done by the loop itself. Ports are the loop's own: a server may
    be dialled by the port it asked for, whichever it has got."""

    def __init__(self) -> None:
        super().__init__()
        self._ports: dict[int, int] = {}

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> Any:
        return _done(self, lambda: func(*args))

    async def create_server(  # type: ignore[override]
        self, factory: Any, host: str, port: int, **more: Any
    ) -> asyncio.Server:
        server = await super().create_server(factory, host, 0, **more)
        self._ports[port] = server.sockets[0].getsockname()[1]
        return server

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: str, port: int, **more: Any
    ) -> Any:
        return await super().create_connection(factory, host, self._ports[port], **more)


def _done(loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> asyncio.Future[T]:
    future: asyncio.Future[T] = loop.create_future()
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    return future
