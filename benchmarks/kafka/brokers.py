"""The two systems, started as users start them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.peers.kafka import class_path

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 60
HEAP = ("-Xms1G", "-Xmx1G")
"""What Kafka's start script gives a broker, as it does with the collector's options."""
COLLECTOR = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
)
CLUSTER_ID = "c3RyYXRhbXEtYmVuY2gtMQ"

KAFKA = "Kafka"
FLUSH_OS = "ours, flush=os"
FLUSH_SYNC = "ours, flush=sync"
SYSTEMS = (KAFKA, FLUSH_OS, FLUSH_SYNC)


@dataclass(frozen=True, slots=True)
class Broker:
    """A process that was started; whether it answers yet is for the caller to find out."""

    name: str
    address: str
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def create_topic(self, name: str, partitions: int) -> None:
        admin = self._admin()  # gone with its last reference, whatever it still does
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(SECONDS_MAX)

    def delete_topic(self, name: str) -> None:
        admin = self._admin()
        admin.delete_topics([name])[name].result(SECONDS_MAX)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}"
            try:
                self._admin().list_topics(timeout=1)
            except KafkaException:
                assert time.monotonic() < deadline, f"{self.name} does not answer"
            else:
                return

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})


class Machine:
    """Folders and ports of the brokers: each is prepared once and started any number of times."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._commands: dict[str, tuple[str, Sequence[str]]] = {}

    @contextmanager
    def running(self, system: str) -> Iterator[Broker]:
        if system not in self._commands:
            self._commands[system] = self._prepared(system)
        address, command = self._commands[system]
        with (self._folder / f"{system}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=_environment())
        try:
            yield Broker(system, address, process)
        finally:
            process.terminate()
            process.wait(SECONDS_MAX)

    def _prepared(self, system: str) -> tuple[str, Sequence[str]]:
        data = self._folder / system.replace(", ", "-").replace("=", "-")
        data.mkdir()
        if system == KAFKA:
            return _prepared_kafka(data)
        return _prepared_ours(data, system.rpartition("=")[2])


def _prepared_ours(data: Path, flush: str) -> tuple[str, Sequence[str]]:
    port = free_port()
    command = [
        *(sys.executable, "-m", "stratamq.cli", "server", "--data-dir", str(data)),
        *("--kafka-port", str(port), "--topic-flush", flush, "--log-level", "warning"),
    ]
    return f"127.0.0.1:{port}", command


def _prepared_kafka(data: Path) -> tuple[str, Sequence[str]]:
    """One node that is broker and controller; all that Kafka has a default for is left to it."""
    port, controller = free_port(), free_port()
    settings = data / "server.properties"
    settings.write_text(as_properties(kafka_settings(data / "logs", port, controller)))
    java = ["java", "-Djava.awt.headless=true", "-cp", class_path()]
    subprocess.run(
        [
            *(*java, "kafka.tools.StorageTool", "format", "--config", str(settings)),
            *("--cluster-id", CLUSTER_ID),
        ],
        check=True,
        capture_output=True,
        timeout=SECONDS_MAX,
    )
    start = [java[0], *HEAP, *COLLECTOR, *java[1:], "kafka.Kafka", str(settings)]
    return f"127.0.0.1:{port}", start


def kafka_settings(logs: Path, port: int, controller: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(logs),
        # One node cannot hold the three replicas that these topics have by default.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


def as_properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _environment() -> dict[str, str]:
    """With compiled modules kept on disk, as after any installation."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT / "src")}
