"""Apache Iceberg's REST catalog from Maven Central, a process of its own, on loopback."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.peers.s3 import free_port
from tests.waiting import wait_until

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
JARS = HERE.parents[2] / "build" / f"iceberg-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
FETCH_SECONDS_MAX = 600
START_SECONDS_MAX = 60


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """The address of the catalog, for as long as it runs. Its database is in `folder`."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{_jars()}/*", str(HERE / "Catalog.java"), str(port), str(folder)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait(address, server, folder / "log")
            yield address
        finally:
            server.kill()
            server.wait()


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    def is_up() -> bool:
        assert server.poll() is None, log.read_text()[-2000:]
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"{address}/v1/config", timeout=5).close()
            return True
        return False

    wait_until(is_up, "the catalog comes up", START_SECONDS_MAX)


def _jars() -> Path:
    """The first caller fetches them; others, in other processes too, wait for it."""
    JARS.mkdir(parents=True, exist_ok=True)
    done = JARS / "done"
    with (JARS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            command = ["mvn", "--batch-mode", "--quiet", f"--file={POM}"]
            command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
            command += [f"-DoutputDirectory={JARS}"]
            subprocess.run(command, check=True, timeout=FETCH_SECONDS_MAX)
            done.touch()
    return JARS
