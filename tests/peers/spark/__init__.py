"""Spark beside the tests' own session: its connector for Kafka, and a cluster of processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.peers.s3 import free_port

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
JARS = HERE.parents[2] / "build" / f"spark-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
FETCH_SECONDS_MAX = 600
START_SECONDS_MAX = 120


def jars() -> list[str]:
    """The connector for Kafka. The first caller fetches it; others, in other processes, wait."""
    JARS.mkdir(parents=True, exist_ok=True)
    done = JARS / "done"
    with (JARS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _fetch()
            done.touch()
    return sorted(str(jar) for jar in JARS.glob("*.jar"))


def _fetch() -> None:
    subprocess.run(
        [
            "mvn",
            "--batch-mode",
            "--quiet",
            f"--file={POM}",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={JARS}",
        ],
        check=True,
        timeout=FETCH_SECONDS_MAX,
    )


class Cluster:
    """A master and its workers, each a process."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.master = f"spark://127.0.0.1:{free_port()}"
        self._folder, self._stack = folder, stack
        self._workers: list[subprocess.Popen[bytes]] = []
        port = self.master.rpartition(":")[2]
        self._start("master.Master", "master", "--port", port)
        _wait_for(folder / "master.log", "Starting Spark master")

    def add_worker(self) -> None:
        name = f"worker-{len(self._workers)}"
        flags = ("--cores", "1", "--memory", "700m", "--work-dir", str(self._folder / name))
        self._workers.append(self._start("worker.Worker", name, *flags, self.master))
        _wait_for(self._folder / f"{name}.log", "Successfully registered with master")

    def kill_a_worker(self) -> None:
        """With the executors it has started, which notice it."""
        worker = self._workers.pop()
        worker.kill()
        worker.wait()

    def _start(self, kind: str, name: str, *flags: str) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        log = self._stack.enter_context((self._folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [
                *(str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"),
                *("--host", "127.0.0.1", "--webui-port", str(free_port()), *flags),
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"},
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Cluster]:
    with ExitStack() as stack:
        cluster = Cluster(folder, stack)
        for _ in range(workers):
            cluster.add_worker()
        yield cluster


def _wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while text not in log.read_text(errors="replace"):
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.2)
