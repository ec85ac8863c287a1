"""The doors of a node: everything outside its own code that can fail, wait or differ between runs.

A node gets them as one object. The real ones are the default; a test puts others in their place and
then runs a whole node on a disk in memory, at a time of its own and with bytes that it knows.

What goes past them, and how a simulation covers it:

| what                                            | covered by                                   |
|-------------------------------------------------|----------------------------------------------|
| sockets, timers, threads of `asyncio.to_thread` | the event loop's `create_server`,            |
|                                                 | `call_later` and `run_in_executor`           |
| processor time that requests used (quotas)      | patched `time.perf_counter`, `thread_time`   |
| object stores, their folders and processes      | nothing: a simulated node has no cold tier   |
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stratamq.broker.kafka.contract import DiskUsage
from stratamq.engine.pool import IOPool
from stratamq.log.disk import Disk, RealDisk
from stratamq.log.kv import OpenKV, RocksKV
from stratamq.model.clock import Clock, SystemClock
from stratamq.model.entropy import Entropy
from stratamq.node.data_dir import DataDirLock


class Lock(Protocol):
    """Keeps a second node out of a data folder."""

    def acquire(self) -> None:
        """DataDirInUse when another node has it."""

    def release(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """See the module. Frozen: a node keeps the doors it was made with."""

    clock: Clock = field(default_factory=SystemClock)
    """Wall time: timestamps, retention, expiry."""

    now_s: Callable[[], float] = time.monotonic
    """Time that only goes forward, for measuring how long something took."""

    entropy: Entropy = os.urandom
    """So many random bytes: ids, secrets, salts."""

    disk: Disk | None = None
    """The file system. None: the machine's own, which each engine opens with a share of the
    descriptors and threads of its own; `own_disk` is for everything else."""

    open_kv: OpenKV = RocksKV
    """Opens the key-value store in a folder, and creates it there."""

    pool: Callable[..., IOPool] = IOPool
    """Makes the writer threads of an engine; called like the class."""

    lock: Callable[[Path], Lock] = DataDirLock
    """The lock of a data folder, not acquired yet."""

    disk_usage: Callable[[Path], DiskUsage] = shutil.disk_usage
    """How full the file system is that a folder is on."""

    @property
    def own_disk(self) -> Disk:
        """For the node's own small files. A new one each time, so that no file stays open."""
        return self.disk or RealDisk()
