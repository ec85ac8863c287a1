"""What it costs to run a node and to look at it: `make bench-tools`, or `python -m benchmarks.tools
[case ...]`. Keeps its table in `benchmarks/results/tools.md`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.kafka.librdkafka import produce
from benchmarks.kafka.processes import cpu_seconds, idle_share
from benchmarks.storage.report import Row, as_markdown, machine, median, resident_mb, spread

RESULTS = Path(__file__).parent / "results" / "tools.md"
ROUNDS = 9
SECONDS_MAX = 120
TOPICS, PARTITIONS = 100, 100
SCRAPES = 20
SCRAPE_EVERY_S = 1.0
RECORDS, RECORD_BYTES = 1_000_000, 100
IMPORTS = "import asyncio, rocksdict, uvloop"
STRATAMQ = (sys.executable, "-m", "stratamq.cli")


@dataclass(frozen=True, slots=True)
class Node:
    pid: int
    ready_s: float
    kafka: str
    console: str | None

    def scrape(self) -> float:
        """Seconds of one request for the metrics."""
        began = time.perf_counter()
        with urllib.request.urlopen(f"http://{self.console}/metrics", timeout=30) as answer:
            answer.read()
        return time.perf_counter() - began


@contextmanager
def running(folder: Path, *flags: str) -> Iterator[Node]:
    began = time.perf_counter()
    command = [*STRATAMQ, "server", "--data-dir", str(folder), "--kafka-port", "0"]
    process = subprocess.Popen(
        [*command, "--log-level", "warning", *(flags or ("--console-port", "0"))],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        ready_s = time.perf_counter() - began
        said = dict(word.split("=", 1) for word in ready.split() if "=" in word)
        yield Node(process.pid, ready_s, said["kafka"], said.get("console"))
    finally:
        process.terminate()
        process.wait(SECONDS_MAX)


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="stratamq-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def starting() -> list[Row]:
    """Each time in an empty folder."""
    took = []
    with scratch() as folder:
        for number in range(ROUNDS):
            with running(folder / str(number)) as node:
                took.append(node.ready_s)
        with running(folder / "idle") as node:
            time.sleep(2)
            memory, idle = resident_mb(node.pid), 100 * idle_share(node.pid, 20)
        bare = [_seconds([sys.executable, "-c", IMPORTS]) for _ in range(ROUNDS)]
    return [
        Row(
            what="start to the ready line, empty folder",
            ours=f"{median(took):.2f} s ({spread(took)})",
            ceiling=f"{median(bare):.2f} s: Python with asyncio, RocksDB and uvloop imported",
            ratio=f"{median(took) / median(bare):.1f}",
            goal="<= 0.3 s",
            met=median(took) <= 0.3,
        ),
        Row(what="memory, idle", ours=f"{memory:.0f} MB", goal="<= 60 MB", met=memory <= 60),
        Row(
            what="processor, idle",
            ours=f"{idle:.2f} % of a core",
            goal="<= 0.5 %",
            met=idle <= 0.5,
        ),
    ]


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def listing() -> list[Row]:
    with scratch() as folder, running(folder / "node") as node:
        _create(node, 10, 3)
        command = [*STRATAMQ, "topic", "list", "--server", node.kafka]
        took = [_seconds(command) for _ in range(ROUNDS)]
    return [
        Row(
            what="stratamq topic list, in all",
            ours=f"{median(took):.2f} s ({spread(took)})",
            goal="<= 0.3 s",
            met=median(took) <= 0.3,
        )
    ]


def scraping() -> list[Row]:
    with scratch() as folder, running(folder / "node") as node:
        _create(node, TOPICS, PARTITIONS)
        node.scrape()
        took_ms = [1000 * node.scrape() for _ in range(SCRAPES)]
    return [
        Row(
            what=f"/metrics over HTTP with {TOPICS * PARTITIONS:,} shards",
            ours=f"{median(took_ms):.1f} ms ({spread(took_ms)})",
            goal="<= 20 ms",
            met=median(took_ms) <= 20,
        )
    ]


def _create(node: Node, topics: int, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.kafka, "log_level": 0})
    made = [NewTopic(f"topic-{number}", partitions, 1) for number in range(topics)]
    for created in admin.create_topics(made, request_timeout=SECONDS_MAX).values():
        created.result(SECONDS_MAX)


def looking() -> list[Row]:
    """The node's processor time for a message, scraped every second beside not at all, in turns."""
    seen, unseen = [], []
    with scratch() as folder, running(folder / "node") as node:
        _create(node, 1, 3)
        _cpu_us(node)
        for _ in range(ROUNDS):
            unseen.append(_cpu_us(node))
            stop = threading.Event()
            scraper = threading.Thread(target=_scrape_until, args=(node, stop))
            scraper.start()
            seen.append(_cpu_us(node))
            stop.set()
            scraper.join()
    ratios = [one / other for one, other in zip(seen, unseen, strict=True)]
    return [
        Row(
            what="processor time for a message, /metrics read every second",
            ours=f"{median(seen):.2f} us",
            ceiling=f"{median(unseen):.2f} us: not read",
            ratio=f"{median(ratios):.3f} ({spread(ratios)})",
            goal="<= 1.01",
            met=median(ratios) <= 1.01,
        )
    ]


def _scrape_until(node: Node, stop: threading.Event) -> None:
    while not stop.wait(SCRAPE_EVERY_S):
        node.scrape()


def _cpu_us(node: Node) -> float:
    before = cpu_seconds(node.pid)
    settings = {"linger.ms": "5", "acks": "all"}
    produce(node.kafka, "topic-0", records=RECORDS, size=RECORD_BYTES, settings=settings)
    return (cpu_seconds(node.pid) - before) * 1_000_000 / RECORDS


CASES: dict[str, Callable[[], list[Row]]] = {
    "start": starting,
    "list": listing,
    "scrape": scraping,
    "look": looking,
}


def main(chosen: list[str]) -> None:
    rows: list[Row] = []
    for name in chosen or list(CASES):
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += CASES[name]()
    table = as_markdown(rows)
    print(table)
    if not chosen:
        head = f"# Running a node\n\n`make bench-tools`, {date.today()}, {machine()}.\n\n"
        RESULTS.write_text(f"{head}{table}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
