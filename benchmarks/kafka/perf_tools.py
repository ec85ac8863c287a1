"""Kafka's own load tools, and what their output says."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from tests.peers.kafka import class_path

SECONDS_MAX = 600
PRODUCED = re.compile(
    r"(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec .*?"
    r"(?P<p50>\d+) ms 50th, \d+ ms 95th, (?P<p99>\d+) ms 99th, (?P<p999>\d+) ms 99\.9th"
)
CONSUMED_COUNT, FETCH_RATE = 4, 9
"""ConsumerPerformance's columns: messages in all, and their rate without the rebalance."""


@dataclass(frozen=True, slots=True)
class Produced:
    records: int
    rate: float


def parse_produced(output: str) -> Produced:
    """The last line is about the whole run; those before it about windows of five seconds."""
    found = list(PRODUCED.finditer(output))
    if not found:
        raise ValueError(f"no summary in the tool's output:\n{output}")
    return Produced(int(found[-1]["records"]), float(found[-1]["rate"]))


def parse_consumed(output: str) -> Produced:
    lines = [line.split(", ") for line in output.splitlines() if re.match(r"\d{4}-", line)]
    if not lines:
        raise ValueError(f"no summary in the tool's output:\n{output}")
    return Produced(int(lines[-1][CONSUMED_COUNT]), float(lines[-1][FETCH_RATE]))


def produce(
    address: str, topic: str, *, records: int, size: int, settings: Mapping[str, str]
) -> float:
    """Records per second."""
    props = {"bootstrap.servers": address, **settings}
    output = _run(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(size)),
        *("--throughput", "-1", "--producer-props"),
        *(f"{name}={value}" for name, value in props.items()),
    )
    result = parse_produced(output)
    if result.records != records:
        raise RuntimeError(f"{result.records} of {records} records were acknowledged:\n{output}")
    return result.rate


def consume(address: str, topic: str, *, records: int) -> float:
    """Records per second, from the first fetch on: joining the group is not counted."""
    output = _run(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", address, "--topic", topic, "--messages", str(records)),
    )
    result = parse_consumed(output)
    if result.records < records:
        raise RuntimeError(f"{result.records} of {records} records came:\n{output}")
    return result.rate


def _run(tool: str, *arguments: str) -> str:
    """With the heap that Kafka's scripts give their tools."""
    done = subprocess.run(
        ["java", "-Xmx512M", "-cp", class_path(), tool, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    if done.returncode:
        raise RuntimeError(f"{tool} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout
