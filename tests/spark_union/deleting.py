"""A node process that deletes single records when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.node import READY, ROOT, SECONDS_MAX


class DeletingNode:
    """`tests.spark_union.program`, started and ready."""

    def __init__(self, data: Path, port: int = 0, **settings: str) -> None:
        self.data, self.settings = data, settings
        self.log = tempfile.NamedTemporaryFile(prefix="stratamq-", suffix=".log")  # noqa: SIM115
        given = {**settings, "kafka.port": str(port)}
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.spark_union.program", str(data)),
                *(f"{name}={value}" for name, value in given.items()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        line = self._answer()
        found = READY.match(line)
        assert found, f"{line!r}\n{self.logged()}"
        self.address = f"{found[1]}:{found[2]}"
        self.port = int(found[2])

    def _answer(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    def logged(self) -> str:
        return Path(self.log.name).read_text()

    def delete(self, topic: str, partition: int, offset: int) -> bool:
        assert self.process.stdin
        print(topic, partition, offset, file=self.process.stdin, flush=True)
        told = self._answer().strip()
        assert told in ("True", "False"), f"{told!r}\n{self.logged()}"
        return told == "True"

    def killed_and_restarted(self) -> DeletingNode:
        """Another one on the same folder and port."""
        self.end(signal.SIGKILL)
        return DeletingNode(self.data, self.port, **self.settings)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.communicate(timeout=SECONDS_MAX)
        self.log.close()
        return self.process.returncode


@contextmanager
def deleting_node(data: Path, **settings: str) -> Iterator[DeletingNode]:
    node = DeletingNode(data, **settings)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.end(signal.SIGKILL)
