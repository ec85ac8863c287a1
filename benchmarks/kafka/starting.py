"""What a system costs before it does anything: time to the first message, memory, idle cycles."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from benchmarks.kafka.brokers import Broker, Machine
from benchmarks.kafka.librdkafka import Failures, producer
from benchmarks.kafka.processes import idle_share
from benchmarks.storage.report import resident_mb

SECONDS_MAX = 60
IDLE_SECONDS = 3
LOOKS_EVERY_S = 0.002
EAGER = {"reconnect.backoff.ms": "5", "reconnect.backoff.max.ms": "5", "linger.ms": "0"}


@dataclass(frozen=True, slots=True)
class Start:
    seconds: float
    resident_mb: float
    idle_percent: float


def measure(machine: Machine, system: str) -> Start:
    """From the start of the process to the first acknowledged message, its topic made for it."""
    began = time.perf_counter()
    with machine.running(system) as broker:
        wait_for_door(broker)
        first_produce(broker)
        took = time.perf_counter() - began
        idle = idle_share(broker.pid, IDLE_SECONDS)
        return Start(took, resident_mb(broker.pid), 100 * idle)


def wait_for_door(broker: Broker) -> None:
    """The client comes when it is let in. One that is turned away looks again after 0.1 s, and then
    less and less often: that would be measured instead."""
    host, _, port = broker.address.rpartition(":")
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            socket.create_connection((host, int(port)), SECONDS_MAX).close()
        except OSError:
            if broker.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{broker.name} lets nobody in") from None
            time.sleep(LOOKS_EVERY_S)
        else:
            return


def first_produce(broker: Broker) -> None:
    failures = Failures()
    client = producer(broker.address, {**EAGER, "log_level": "0"}, failures)
    client.produce("start", b"first")
    deadline = time.monotonic() + SECONDS_MAX
    while client.flush(1):
        if broker.process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{broker.name} did not take a message")
    failures.check()
