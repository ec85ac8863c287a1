"""History as clients meet it: a real node, real clients, a folder as the store."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks.kafka.brokers import free_port
from benchmarks.kafka.librdkafka import Failures, consume, producer
from benchmarks.storage.report import Row, median, percentile, spread
from stratamq.client import BlockingClient, FetchLimits, TopicPartition, options_of

SECONDS_MAX = 300
RECORDS = 400_000
RECORD_BYTES = 1024
SEGMENT_BYTES = 64 << 20
ROUNDS = 5
SEEKS = 30
SMALL = FetchLimits(bytes_max=64 << 10)

RATE = 1_000
LATENCY_S = 10.0
KEPT = {"retention.ms": "-1", "flush": "os", "segment.bytes": str(SEGMENT_BYTES)}


class Node(NamedTuple):
    address: str

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def create(self, topic: str, **config: str) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        new = NewTopic(topic, 1, 1, config={**KEPT, **named})
        admin = self.admin()  # it must outlive what it was asked for
        admin.create_topics([new])[topic].result(SECONDS_MAX)

    def alter(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = self.admin()
        admin.incremental_alter_configs([wanted])[wanted].result(SECONDS_MAX)

    def moved_to(self, topic: str) -> int:
        """Offsets below it are in the store alone."""
        with BlockingClient(options_of(self.address, {})) as client:
            return client.call(client.asyncio.describe_lake(topic)).partitions[0].local_start_offset

    def wait_until_moved(self, topic: str, least: int) -> int:
        ends = time.monotonic() + SECONDS_MAX
        while (reached := self.moved_to(topic)) < least:
            if time.monotonic() > ends:
                raise RuntimeError(f"{topic} was moved up to offset {reached} only")
            time.sleep(0.2)
        return reached


@contextmanager
def running(folder: Path) -> Iterator[Node]:
    port = free_port()
    command = [
        *(sys.executable, "-m", "stratamq.cli", "server", "--data-dir", str(folder)),
        *("--kafka-port", str(port), "--log-level", "warning", "--tier-interval-ms", "500"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        process.stdout.readline()
        yield Node(f"127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(SECONDS_MAX)


def measure(folder: Path) -> list[Row]:
    with running(folder) as node:
        for topic in ("warm", "cold"):
            node.create(topic)
            fill(node, topic, RECORDS)
        node.create("hot")
        latency = produce_latency(node)
        sequential = in_order(node)
    with running(folder) as node:  # nothing is unpacked or open yet
        return [sequential, *random_reads(node), latency]


def json_values(count: int) -> list[bytes]:
    """Realistic: names repeat, numbers do not."""
    rng = random.Random(7)
    cities = ["Lisbon", "Osaka", "Quito", "Tartu", "Hanoi", "Accra"]
    made = []
    for number in range(count):
        fields = {
            "id": number,
            "city": rng.choice(cities),
            "price": round(rng.random() * 100, 2),
            "note": "",
        }
        text = json.dumps(fields)
        fields["note"] = rng.randbytes((RECORD_BYTES - len(text)) // 4).hex() * 2
        made.append(json.dumps(fields).encode())
    return made


def fill(node: Node, topic: str, records: int) -> None:
    failures = Failures()
    client = producer(node.address, {"linger.ms": "20", "batch.size": "262144"}, failures)
    values = json_values(5_000)
    for number in range(records):
        while True:
            try:
                client.produce(topic, values[number % len(values)], key=str(number))
                break
            except BufferError:
                client.poll(0.01)
    if client.flush(SECONDS_MAX):
        raise RuntimeError("not everything was acknowledged in time")
    failures.check()


# -- in order --------------------------------------------------------------------------------------


def in_order(node: Node) -> Row:
    """The same records in the same client, in turn."""
    cold_records = node.wait_until_moved("cold", RECORDS // 2)
    rates: dict[str, list[float]] = {"warm": [], "cold": []}
    for _ in range(ROUNDS):
        for topic, found in rates.items():
            rate = consume(node.address, topic, records=cold_records, partitions=1)
            found.append(rate * RECORD_BYTES / 1e6)
    ratios = [cold / warm for cold, warm in zip(rates["cold"], rates["warm"], strict=True)]
    return Row(
        what=f"Kafka fetch of history in order (librdkafka), {cold_records:,} records",
        ours=f"{median(rates['cold']):,.0f} MB/s",
        ceiling=f"{median(rates['warm']):,.0f} MB/s warm",
        ratio=f"{median(ratios):.2f} ({spread(ratios)})",
        goal=">= 0.5",
        met=median(ratios) >= 0.5,
    )


# -- somewhere -------------------------------------------------------------------------------------


def random_reads(node: Node) -> list[Row]:
    reached = node.wait_until_moved("cold", RECORDS // 2)
    rng = random.Random(3)
    places = [rng.randrange(reached) for _ in range(SEEKS)]
    with BlockingClient(options_of(node.address, {})) as client:
        first = [fetched_ms(client, offset) for offset in places]
        again = [fetched_ms(client, offset) for offset in places[-5:] for _ in range(5)]
    return [
        _first_byte("first byte of a random fetch of history", first, 100),
        _first_byte("first byte, asked for again", again, 10),
    ]


def fetched_ms(client: BlockingClient, offset: int) -> float:
    place = TopicPartition("cold", 0)
    began = time.perf_counter()
    found = client.call(client.asyncio.fetch(place, offset, SMALL))
    if not found.data:
        raise RuntimeError(f"nothing came from offset {offset}")
    return (time.perf_counter() - began) * 1000


def _first_byte(what: str, found: list[float], goal_ms: float) -> Row:
    return Row(
        what=f"{what}, {len(found)} fetches",
        ours=f"p50 {statistics.median(found):.0f} ms, max {max(found):.0f} ms",
        goal=f"all <= {goal_ms:g} ms",
        met=max(found) <= goal_ms,
    )


# -- producing beside it ---------------------------------------------------------------------------


def produce_latency(node: Node) -> Row:
    """To the acknowledgement, before and while the backlog of `cold` is moved."""
    acknowledged_ms(node, 2.0)  # connections are made and code is warmed
    idle = [acknowledged_ms(node, LATENCY_S / 2) for _ in range(2)]
    node.alter("cold", "local.retention.ms", "0")
    busy = acknowledged_ms(node, LATENCY_S)
    still_moving = node.moved_to("cold") < RECORDS - 3 * SEGMENT_BYTES // RECORD_BYTES
    calm = percentile([one for part in idle for one in part], 0.99)
    p99 = percentile(busy, 0.99)
    return Row(
        what=f"produce p99 at {RATE:,} msg/s while a backlog moves"
        + ("" if still_moving else " (it had moved before the end)"),
        ours=f"{p99:.2f} ms",
        ceiling=f"{calm:.2f} ms idle",
        ratio=f"{p99 / calm:.2f}",
        goal="<= 1.5",
        met=p99 <= 1.5 * calm,
    )


def acknowledged_ms(node: Node, seconds: float) -> list[float]:
    took: list[float] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            raise RuntimeError(str(error))
        took.append((message.latency() or 0.0) * 1000)

    settings = {"bootstrap.servers": node.address, "acks": "all", "linger.ms": 0}
    client = Producer({**settings, "on_delivery": delivered})
    client.list_topics("hot", SECONDS_MAX)
    value, count = b"x" * 100, int(RATE * seconds)
    began, sent = time.perf_counter(), 0
    while sent < count:
        due = min(count, int((time.perf_counter() - began) * RATE) + 1)
        for _ in range(due - sent):
            client.produce("hot", value)
        sent = due
        client.poll(0.0005)
    client.flush(SECONDS_MAX)
    return took
