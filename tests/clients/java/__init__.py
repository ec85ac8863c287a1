"""Apache Kafka's Java client and tools in one JVM, told by `tests.clients.remote` what to do."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clients.remote import Remote, running
from tests.peers.kafka import class_path

HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "build"
COMPILE_SECONDS_MAX = 120


@contextmanager
def driver() -> Iterator[Remote]:
    jars = class_path()
    with running(
        [
            *("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{_compiled(jars)}:{jars}", "Driver"),
        ]
    ) as remote:
        yield remote


def _compiled(jars: str) -> Path:
    """Class files of what stands here, compiled once per state of the sources."""
    sources = sorted(HERE.glob("*.java"))
    text = b"".join(source.read_bytes() for source in sources) + jars.encode()
    target = BUILD / f"java-driver-{hashlib.sha256(text).hexdigest()[:12]}"
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "java-driver.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=BUILD) as fresh:
                command = ["javac", "-nowarn", "-cp", jars, "-d", f"{fresh}/classes"]
                subprocess.run(
                    [*command, *map(str, sources)], check=True, timeout=COMPILE_SECONDS_MAX
                )
                Path(fresh, "classes").rename(target)
    return target
