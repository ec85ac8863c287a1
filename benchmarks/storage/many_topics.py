"""A node with 2,000 topics of 5 partitions: creating them in one request, writing to all of them,
and a start after kill -9, beside what the same files cost without a broker.

Read the ratio to the ceiling, and the processor time. ext4 does not use an inode again for some
minutes after its file was removed, and looks at all of these whenever a file is created nearby:
where many files were removed just before, creating one takes a millisecond instead of 30 us.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.kafka.librdkafka import Failures, payloads, producer
from benchmarks.kafka.processes import cpu_seconds
from benchmarks.storage.report import Row

TOPICS, PARTITIONS = 2_000, 5
SHARDS = TOPICS * PARTITIONS
MESSAGES, MESSAGE_BYTES = 100_000, 100
SYNC_THREADS = 8
SECONDS_MAX = 300
CREATE_GOAL_S, READY_GOAL_S, CPU_GOAL_US = 3.0, 1.5, 30.0


@dataclass(frozen=True, slots=True)
class Took:
    """What a step took by the wall clock, and of the processor."""

    seconds: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s ({self.cpu_s:.1f} s CPU)"


class Node:
    """A server process, and the time from its start to its ready line."""

    def __init__(self, folder: Path) -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "stratamq.cli", "server", "--data-dir", str(folder)),
                *("--kafka-port", "0", "--log-level", "warning"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline().split()
        seconds = time.perf_counter() - began
        assert ready, f"the server ended with {self.process.wait(SECONDS_MAX)}"
        self.started = Took(seconds, cpu_seconds(self.process.pid))
        (self.address,) = [word.removeprefix("kafka=") for word in ready if "kafka=" in word]
        self.admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def timed(self, step: Callable[[], object]) -> Took:
        """The step's time, and the processor time of the server meanwhile."""
        began, cpu = time.perf_counter(), cpu_seconds(self.process.pid)
        step()
        return Took(time.perf_counter() - began, cpu_seconds(self.process.pid) - cpu)

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(SECONDS_MAX)


def create(node: Node) -> None:
    topics = [NewTopic(f"topic-{number}", PARTITIONS, 1) for number in range(TOPICS)]
    for created in node.admin.create_topics(topics, request_timeout=SECONDS_MAX).values():
        created.result(SECONDS_MAX)


def write(node: Node) -> None:
    failures = Failures()
    client = producer(node.address, {"linger.ms": "100"}, failures)
    client.list_topics(timeout=SECONDS_MAX)
    values = payloads(MESSAGE_BYTES)
    for number in range(MESSAGES):
        topic, partition = divmod(number % SHARDS, PARTITIONS)
        client.produce(f"topic-{topic}", values[number % len(values)], partition=partition)
        client.poll(0)
    if client.flush(SECONDS_MAX):
        raise RuntimeError("not everything was acknowledged in time")
    failures.check()


def ask_all(node: Node) -> None:
    """Where every partition ends: none of them has lost a message."""
    asked = {
        TopicPartition(f"topic-{topic}", partition): OffsetSpec.latest()
        for topic in range(TOPICS)
        for partition in range(PARTITIONS)
    }
    ends = [
        answer.result(SECONDS_MAX).offset
        for answer in node.admin.list_offsets(asked, request_timeout=SECONDS_MAX).values()
    ]
    if sum(ends) != MESSAGES:
        raise RuntimeError(f"{sum(ends)} of {MESSAGES} messages are there")


def bare_files(folder: Path) -> Took:
    """As many folders with a synced file and an empty one, by plain calls."""
    began, cpu = time.perf_counter(), time.process_time()

    def make(number: int) -> None:
        shard = folder / str(number)
        shard.mkdir()
        (shard / "log").touch()
        with (shard / "spec").open("wb", buffering=0) as spec:
            spec.write(b"." * 200)
            os.fdatasync(spec.fileno())
        names = os.open(shard, os.O_RDONLY)
        os.fsync(names)
        os.close(names)

    with ThreadPoolExecutor(SYNC_THREADS) as threads:
        list(threads.map(make, range(SHARDS)))
    return Took(time.perf_counter() - began, time.process_time() - cpu)


def measure(folder: Path) -> Sequence[Took]:
    (folder / "bare").mkdir()
    bare = bare_files(folder / "bare")
    node = Node(folder / "node")
    try:
        created = node.timed(lambda: create(node))
        written = node.timed(lambda: write(node))
        node.end(signal.SIGKILL)
        node = Node(folder / "node")
        asked = node.timed(lambda: ask_all(node))
    finally:
        node.end(signal.SIGKILL)
    return bare, created, written, node.started, asked


def run() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="stratamq-bench-"))
    try:
        bare, created, written, started, asked = measure(folder)
    finally:
        shutil.rmtree(folder)
    each_us = written.cpu_s * 1_000_000 / MESSAGES
    return [
        Row(
            what=f"create {TOPICS:,} topics of {PARTITIONS} partitions",
            ours=str(created),
            ceiling=f"{bare}: folders and synced files",
            ratio=f"{bare.seconds / created.seconds:.2f}",
            goal=f"<= {CREATE_GOAL_S} s",
            met=created.seconds <= CREATE_GOAL_S,
        ),
        Row(
            what=f"{MESSAGES:,} messages of {MESSAGE_BYTES} B over {SHARDS:,} shards, flush=sync",
            ours=f"{MESSAGES / written.seconds:,.0f} msg/s, {each_us:.0f} us CPU each",
            goal=f"<= {CPU_GOAL_US:.0f} us",
            met=each_us <= CPU_GOAL_US,
        ),
        Row(
            what=f"ready after kill -9 with {SHARDS:,} shards",
            ours=str(started),
            goal=f"<= {READY_GOAL_S} s",
            met=started.seconds <= READY_GOAL_S,
        ),
        Row(what="then the end offsets of all of them", ours=str(asked)),
    ]
