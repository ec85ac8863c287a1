"""The page that is kept: the table, how to repeat it, and where it was made."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from confluent_kafka import libversion

from benchmarks.kafka.table import Row, as_markdown, summary
from tests.peers.kafka import JARS

BUSY_LOAD = 1.0
NOTES = """\
Each cell is the median over the rounds; a ratio is ours by Kafka's, taken round by round, with its
smallest and largest value. Apache Kafka runs as one KRaft node with its default settings and a heap
of 1 GiB, from its Maven Central artifacts; StrataMQ once with `flush=os`, which promises what Kafka
does by default (the goals are about that one), and once with `flush=sync`, which has every
acknowledged message on the disk. All three processes run throughout and are loaded one at a time,
another one first in each round, on topics of their own, with the disk synced before each load;
the row about idle processors says what the two that wait cost. Clients run on the same machine, so
their own processor time is part of every rate. Processor seconds per GB are the broker's alone,
user and system, for a GB of message values before compression.

ProducerPerformance and ConsumerPerformance are Kafka's own, each run in a new JVM; librdkafka is
driven from Python. The rate of ConsumerPerformance is that of fetching, without joining the group.
One message per request: batches of one record (`batch.size=1`, `batch.num.messages=1`), no linger.
End to end is from handing the message to one process's producer (`linger.ms=0`) to having it from
another one's consumer.
"""


def page(rows: Sequence[Row], rounds: int, arguments: str, today: date, load_before: float) -> str:
    command = "make bench-kafka" + (f' ARGS="{arguments}"' if arguments else "")
    return "\n".join(
        [
            "# Beside Apache Kafka",
            "",
            f"`{command}`, {today}, rounds: {rounds}; {machine()}.",
            f"Load average before it began: {load_before:.1f}{_judged(load_before)}.",
            "[Where the time goes](kafka-profile.md).",
            "",
            NOTES,
            as_markdown(rows),
            "",
            summary(rows),
            "",
        ]
    )


def _judged(load: float) -> str:
    """Rates of a busy machine are nobody's."""
    if load < BUSY_LOAD:
        return ""
    return ", so others were using the processors: rates and their ratios are rough"


def machine() -> str:
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return ", ".join(
        [
            f"{os.cpu_count()} cores ({processor()})",
            f"{memory_gb:.0f} GiB of memory",
            f"Linux {platform.release()}",
            f"Python {platform.python_version()}",
            java_version(),
            f"Apache Kafka {kafka_version()}",
            f"librdkafka {libversion()[0]}",
        ]
    )


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def java_version() -> str:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return f"Java {told.split(chr(34))[1]}"


def kafka_version() -> str:
    (jar,) = JARS.glob("kafka-clients-*.jar")
    return jar.stem.rpartition("-")[2]
