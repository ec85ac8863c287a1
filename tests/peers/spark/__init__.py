"""Spark beside the tests' own session: its connector for Kafka, and a cluster of processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from tests.peers.s3 import free_port
from tests.waiting import wait_until

HOME = Path(pyspark.__file__).parent
HERE = Path(__file__).parent
BUILD = HERE.parents[2] / "build"
FETCH_SECONDS_MAX = 600
START_SECONDS_MAX = 120
LOOPBACK = "127.0.0.1"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For programs that end soon: compiling them well would take longer than they do."""


def jars() -> list[str]:
    """The connector for Kafka."""
    return sorted(str(jar) for jar in fetched(HERE / "pom.xml", "spark").glob("*.jar"))


def fetched(pom: Path, name: str, *flags: str) -> Path:
    """The folder with what `pom` asks for. The first caller fetches it; others, in other processes,
    wait."""
    folder = BUILD / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            command = ["mvn", "--batch-mode", "--quiet", f"--file={pom}"]
            command += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", *flags]
            subprocess.run(command, check=True, timeout=FETCH_SECONDS_MAX)
            (folder / "done").touch()
    return folder


class Cluster:
    """A master and its workers, each a process."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.master = f"spark://127.0.0.1:{free_port()}"
        self._folder, self._stack = folder, stack
        self._workers: list[subprocess.Popen[bytes]] = []
        self._names = 0
        port = self.master.rpartition(":")[2]
        self._start("master.Master", "master", "--port", port)
        _wait_for(folder / "master.log", "Starting Spark master")

    def add_workers(self, count: int) -> None:
        """All at once: they take their time."""
        logs = [self._folder / f"{self._add_worker()}.log" for _ in range(count)]
        for log in logs:
            _wait_for(log, "Successfully registered with master")

    def _add_worker(self) -> str:
        self._names += 1
        name = f"worker-{self._names}"
        flags = ("--cores", "1", "--memory", "700m", "--work-dir", str(self._folder / name))
        self._workers.append(self._start("worker.Worker", name, *flags, self.master))
        return name

    def executors(self) -> int:
        """How many were ever started."""
        logs = self._folder.glob("worker-*.log")
        return sum(
            log.read_text(errors="replace").count("Asked to launch executor") for log in logs
        )

    def kill_a_worker(self, *, at_once: bool = False) -> None:
        """The executors it has started notice it, or die `at_once`, as with a machine."""
        worker = self._workers.pop()
        if at_once:
            os.killpg(worker.pid, signal.SIGKILL)
        worker.kill()
        worker.wait()

    def _start(self, kind: str, name: str, *flags: str) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self._folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            [
                *(str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"),
                *("--host", "127.0.0.1", "--webui-port", str(free_port()), *flags),
            ],
            stdout=log,
            stderr=log,
            env={
                **environment(),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
            },
            start_new_session=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(_end_all, process)
        return process


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Cluster]:
    with ExitStack() as stack:
        cluster = Cluster(folder, stack)
        cluster.add_workers(workers)
        yield cluster


@contextmanager
def connect_server(folder: Path, master: str = "local[2]", *flags: str) -> Iterator[str]:
    """The address of a Spark Connect server, a process with its driver in it."""
    port = free_port()
    log = folder / "connect.log"
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": "700m",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.sql.shuffle.partitions": "2",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [str(HOME / "bin" / "spark-submit"), "--master", master, "--class", kind]
    with log.open("wb") as file:
        server = subprocess.Popen(
            [*command, *words, *flags],
            cwd=folder,
            stdout=file,
            stderr=file,
            env=environment(),
            start_new_session=True,
        )
        try:
            _wait_for(log, "Spark Connect server started at")
            yield f"sc://{LOOPBACK}:{port}"
        finally:
            _end_all(server)
            server.wait()


def environment() -> dict[str, str]:
    """For Spark's own programs, and for what they start."""
    own = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **own}


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """With everything it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _wait_for(log: Path, text: str) -> None:
    wait_until(
        lambda: text in log.read_text(errors="replace"),
        lambda: log.read_text(errors="replace"),
        START_SECONDS_MAX,
    )
