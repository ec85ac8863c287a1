"""A node of the demo's own, in a folder of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY = re.compile(r"ready kafka=(\S+) ")
STOP_S_MAX = 30
FLAGS = ("--kafka-port", "0", "--tier-interval-ms", "200", "--log-level", "warning")


@contextmanager
def node(folder: Path) -> Iterator[str]:
    """Its address, for as long as the demo goes on. What it has to say is in `node.log`."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "stratamq.cli", "server", "--data-dir", str(folder / "data")]
    with (folder / "node.log").open("w") as log:
        process = subprocess.Popen([*words, *FLAGS], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout
            ready = READY.match(process.stdout.readline())
            if ready is None:
                raise SystemExit(f"the node did not start:\n{(folder / 'node.log').read_text()}")
            yield ready[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=STOP_S_MAX)
