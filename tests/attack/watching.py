"""What an attack costs: a node's memory, descriptors and threads, and how long others wait."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Process:
    """A running process, seen from outside."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")

    def memory_bytes(self) -> int:
        return self._status("VmRSS")

    def peak_bytes(self) -> int:
        """The most that was resident since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        (self._folder / "clear_refs").write_text("5")

    def descriptors(self) -> int:
        return len(list((self._folder / "fd").iterdir()))

    def sockets(self) -> int:
        names = [self._target(one) for one in (self._folder / "fd").iterdir()]
        return sum(name.startswith("socket:") for name in names)

    def _target(self, descriptor: Path) -> str:
        with suppress(FileNotFoundError):  # closed meanwhile
            return str(descriptor.readlink())
        return ""

    def threads(self) -> int:
        return self._number("Threads")

    def _status(self, name: str) -> int:
        return self._number(name) * 1024

    def _number(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+)", (self._folder / "status").read_text())
        assert found, name
        return int(found[1])


class LoopWatch:
    """How long one turn of the running event loop took at most, in seconds of its thread's
    processor time: what a machine is busy with beside this process does not count."""

    def __init__(self) -> None:
        self.held_s_max = 0.0
        self.turns = 0

    async def run(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.held_s_max = max(self.held_s_max, now - last)
            self.turns += 1
            last = now

    def restart(self) -> None:
        self.held_s_max, self.turns = 0.0, 0


@contextmanager
def watched_loop() -> Iterator[LoopWatch]:
    watch = LoopWatch()
    task = asyncio.get_running_loop().create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
