"""The demo, from an empty folder to a page: about a minute on two quiet cores."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from demo import report
from demo.picture import plot
from demo.pipelines import run_pipeline
from demo.publishing import create, publish
from demo.question import Answer, ask
from demo.shops import DAY_MS, STEP_MS, Message, Size, day, shops
from demo.stage import node
from demo.tiers import TierRow, looked, settled
from demo.topics import ORDERS, READINGS, RESULT, SHOPS, TOPICS
from stratamq.client import BlockingClient, options_of
from stratamq.pipelines.session import quiet
from stratamq.spark import session

T = TypeVar("T")
Tell = Callable[[float], None]

SEED = 7
TIER_S_MAX = 60


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--folder", type=Path, default=Path("build/demo"), help="for the results")
    asked.add_argument("--step-ms", type=int, default=STEP_MS, help="between readings")
    options = asked.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stratamq-demo-") as work, node(Path(work)) as servers:
        run(servers, options.folder, Size(step_ms=options.step_ms), Console())


def run(servers: str, folder: Path, size: Size, console: Console) -> Answer:
    with _steps(console) as (step, took):
        spark = step("starting Spark", lambda tell: _spark(folder))
        _filled(servers, size, step)
        answer = step("joining three topics", lambda tell: ask(spark, servers, RESULT.name))
        tiers = step("looking what is where", lambda tell: _look(servers))
        spark.stop()
        rows = step("running a pipeline", lambda tell: run_pipeline(servers, folder / "pipeline"))
    _tell(console, report.Results(answer=answer, tiers=tiers, steps=took, pipeline=rows), folder)
    return answer


class Step(Protocol):
    """Does a piece of work, with a bar that the work itself moves from 0 to 1."""

    def __call__(self, what: str, work: Callable[[Tell], T]) -> T: ...


def _filled(servers: str, size: Size, step: Step) -> None:
    """Two days of messages, most of them moved to object storage."""
    create(servers, TOPICS)
    now = int(time.time() * 1000)
    today = now - now % DAY_MS
    days = {"the day before": today - 2 * DAY_MS, "yesterday": today - DAY_MS}
    step("publishing which shops there are", lambda tell: publish(servers, shops(now), tell))
    for number, (name, start) in enumerate(days.items()):
        messages = list(day(start, SEED + number, size))

        def send(tell: Tell, some: list[Message] = messages) -> int:
            return publish(servers, some, lambda sent: tell(sent / len(some)))

        step(f"publishing {name}: {len(messages):,} readings and orders", send)
        moving = "segments seal and move to object storage"
        step(moving, lambda tell: _tiered(servers, tell))


def _tiered(servers: str, tell: Tell) -> list[TierRow]:
    """Until the disks hold no more than they should, about."""
    limits = {
        one.name: 2 * one.partitions * int(one.configs["local.retention.bytes"])
        for one in (READINGS, ORDERS)
    }

    def is_done(rows: list[TierRow]) -> bool:
        over = [max(row.local_bytes - limits[row.topic], 0) for row in rows if row.topic in limits]
        tell(1 / (1 + sum(over) / 1e6))
        return not any(over)

    return settled(lambda: _look(servers), is_done, TIER_S_MAX)


def _look(servers: str) -> list[TierRow]:
    with BlockingClient(options_of(servers, {})) as client:
        known = [(one.name, one.configs["storage.type"]) for one in (READINGS, ORDERS, SHOPS)]
        return looked(client, known)


def _spark(folder: Path) -> SparkSession:
    with quiet(folder / "spark.log"):
        return session(
            "local[2]",
            spark_sql_shuffle_partitions="4",
            spark_driver_memory="1g",
            spark_ui_showConsoleProgress="false",
        )


@contextmanager
def _steps(console: Console) -> Iterator[tuple[Step, list[tuple[str, float]]]]:
    """To do pieces of work with, and what each of them took."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    took: list[tuple[str, float]] = []
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:

        def step(what: str, work: Callable[[Tell], T]) -> T:
            began = time.monotonic()
            task = bars.add_task(what, total=1)
            found = work(lambda share: bars.update(task, completed=min(share, 1)))
            bars.update(task, completed=1)
            took.append((what, time.monotonic() - began))
            if not console.is_terminal:
                console.print(f"{what}: {took[-1][1]:.1f} s", highlight=False, soft_wrap=True)
            return found

        yield step, took


def _tell(console: Console, results: report.Results, folder: Path) -> None:
    report.show(console, results)
    png, page = folder / "demo.png", folder / "demo.html"
    plot(results.answer, results.tiers, png)
    report.page(results, png, page)
    console.print(f"{png}  {page}", highlight=False)


if __name__ == "__main__":
    main()
