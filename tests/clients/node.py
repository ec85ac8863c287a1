"""A real `stratamq server` process, as users start it."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"ready kafka=(\S+):(\d+) ")
SECONDS_MAX = 60


class Node:
    """Started and ready. Standard error goes to a file, so that nobody has to read it in time."""

    def __init__(
        self, data: Path, *flags: str, port: int = 0, descriptors_max: int | None = None
    ) -> None:
        self.data, self.flags = data, flags
        limit = (resource.RLIMIT_NOFILE, (descriptors_max, descriptors_max))
        self.log = tempfile.NamedTemporaryFile(prefix="stratamq-", suffix=".log")  # noqa: SIM115
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "stratamq.cli", "server", "--data-dir", str(data)),
                *("--kafka-port", str(port), *flags),
            ],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            preexec_fn=partial(resource.setrlimit, *limit) if descriptors_max else None,
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        found = READY.match(line)
        assert found, f"{line!r}\n{self.logged()}"
        self.ready, self.host, self.port = line, found[1], int(found[2])

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def logged(self) -> str:
        return Path(self.log.name).read_text()

    def memory_bytes(self, field: str = "VmRSS") -> int:
        """What is resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024

    @contextmanager
    def grows_by_less_than(self, limit_bytes: int) -> Iterator[None]:
        """At its peak, within the block."""
        before = self.memory_bytes()
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        yield
        grown = self.memory_bytes("VmHWM") - before
        assert grown < limit_bytes, f"{grown >> 20} MiB"

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.communicate(timeout=SECONDS_MAX)
        self.log.close()
        return self.process.returncode

    def restarted(self, number: signal.Signals = signal.SIGTERM) -> Node:
        """Another one on the same folder and port, after this one was ended by the signal."""
        self.end(number)
        return Node(self.data, *self.flags, port=self.port)


@contextmanager
def running(data: Path, *flags: str, descriptors_max: int | None = None) -> Iterator[Node]:
    node = Node(data, *flags, descriptors_max=descriptors_max)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.end(signal.SIGKILL)
