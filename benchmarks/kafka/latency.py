"""Time from handing a message to a producer to having it from a consumer, at a steady rate.

Producer and consumer are two processes on one machine, so that they share a clock but no lock.
"""

from __future__ import annotations

import multiprocessing
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as Place

from benchmarks.kafka.librdkafka import Failures, producer

SECONDS_MAX = 60
STAMP = struct.Struct(">q")
TICK_SECONDS = 0.001
SETTINGS = {"acks": "all", "linger.ms": "0"}


@dataclass(frozen=True, slots=True)
class Latency:
    p50_ms: float
    p99_ms: float
    p999_ms: float


def percentiles(nanoseconds: Sequence[int]) -> Latency:
    ordered = sorted(nanoseconds)

    def at(share: float) -> float:
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] / 1e6

    return Latency(at(0.5), at(0.99), at(0.999))


def measure(address: str, topic: str, *, rate: int, seconds: float, size: int) -> Latency:
    """The first second is not counted: connections are made and code is warmed in it."""
    count, warm = int(rate * seconds), rate
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    reader = multiprocessing.get_context("spawn").Process(
        target=_read, args=(address, topic, warm + count, theirs)
    )
    reader.start()
    try:
        if not ours.poll(SECONDS_MAX) or ours.recv() != "ready":
            raise RuntimeError("the consumer did not start")
        _send(address, topic, warm + count, rate, size)
        if not ours.poll(SECONDS_MAX):
            raise RuntimeError("the consumer did not get everything")
        return percentiles(ours.recv()[warm:])
    finally:
        reader.terminate()
        reader.join()


def _send(address: str, topic: str, count: int, rate: int, size: int) -> None:
    """A few at every tick; a late tick is made up for, so that the rate holds."""
    failures = Failures()
    client = producer(address, SETTINGS, failures)
    client.list_topics(topic, SECONDS_MAX)
    padding = b"x" * (size - STAMP.size)
    began, sent = time.perf_counter(), 0
    while sent < count:
        due = min(count, int((time.perf_counter() - began) * rate) + 1)
        for _ in range(due - sent):
            client.produce(topic, STAMP.pack(time.monotonic_ns()) + padding)
        sent = due
        client.poll(0)
        time.sleep(TICK_SECONDS)
    if client.flush(SECONDS_MAX):
        raise RuntimeError("not everything was acknowledged in time")
    failures.check()


def _read(address: str, topic: str, count: int, out: Connection) -> None:
    client = Consumer(
        {"bootstrap.servers": address, "group.id": "latency", "enable.auto.commit": False}
    )
    client.assign([Place(topic, 0, OFFSET_BEGINNING)])
    client.poll(0.5)
    out.send("ready")
    found: list[int] = []
    while len(found) < count:
        message = client.poll(1)
        now = time.monotonic_ns()
        if message is not None and message.error() is None:
            found.append(now - STAMP.unpack_from(message.value())[0])
    out.send(found)
    client.close()
