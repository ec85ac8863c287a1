"""`python -m benchmarks.kafka [--quick] [--only REGEX] [--rounds N]`: measure, print, keep."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path

from benchmarks.kafka import starting
from benchmarks.kafka.brokers import SYSTEMS, Broker, Machine
from benchmarks.kafka.cases import FULL, QUICK, Case, cases
from benchmarks.kafka.processes import cpu_seconds
from benchmarks.kafka.report import page
from benchmarks.kafka.table import Goal, Row, Sample, as_markdown
from benchmarks.storage.report import resident_mb

RESULTS = Path(__file__).parents[1] / "results" / "kafka.md"
WARM_UPS = 2
EXIT_TERMINATED = 128 + signal.SIGTERM


def main(words: Sequence[str]) -> None:
    asked = arguments(words)
    scale = QUICK if asked.quick else FULL
    chosen = [
        case for case in cases(scale) if any(re.search(asked.only, what) for what in case.rows)
    ]
    rounds = asked.rounds or scale.rounds
    load_before = os.getloadavg()[0]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))  # brokers are ended, too
    with tempfile.TemporaryDirectory(prefix="bench-kafka-", dir=asked.folder) as folder:
        machine = Machine(Path(folder))
        rows = [] if asked.only else started(machine, rounds)
        rows += loaded(machine, chosen, rounds, memory=not asked.only)
    print(as_markdown(rows))
    if not asked.only:
        text = page(rows, rounds, " ".join(words), date.today(), load_before)
        RESULTS.write_text(text)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small loads, one round")
    parser.add_argument("--only", default="", help="rows that match this pattern; nothing is kept")
    parser.add_argument("--rounds", type=int, default=0, help="how often each row is measured")
    parser.add_argument("--folder", default=None, help="where data may be written for a while")
    return parser.parse_args(words)


def started(machine: Machine, rounds: int) -> list[Row]:
    took = Row("start to first acknowledged message", "s", Goal.TENTH)
    resident = Row("memory resident, idle after start", "MB", Goal.QUARTER)
    idle = Row("processor while idle", "% of a core", Goal.NONE)
    for system in SYSTEMS:
        starting.measure(machine, system)  # files are made and in the page cache from now on
    for number in range(rounds):
        for system in turn(number):
            say(f"start {system}")
            found = starting.measure(machine, system)
            took.add(system, Sample(found.seconds))
            resident.add(system, Sample(found.resident_mb))
            idle.add(system, Sample(found.idle_percent))
    return [took, resident, idle]


def loaded(machine: Machine, chosen: Sequence[Case], rounds: int, *, memory: bool) -> list[Row]:
    table = {what: Row(what, case.unit, case.goal) for case in chosen for what in case.rows}
    after = Row("memory resident, after all of this", "MB", Goal.QUARTER)
    with ExitStack() as stack:
        brokers = {system: stack.enter_context(machine.running(system)) for system in SYSTEMS}
        for broker in brokers.values():
            broker.wait_until_ready()
            for number in range(WARM_UPS):
                measured(broker, chosen[0], f"warm-{number}")
        for number in range(rounds):
            for place, case in enumerate(chosen):
                say(f"round {number + 1}/{rounds}: {case.rows[0]}")
                for system in turn(number):
                    samples = measured(brokers[system], case, f"case-{place}-{number}")
                    for what, sample in zip(case.rows, samples, strict=True):
                        table[what].add(system, sample)
        for system, broker in brokers.items():
            after.add(system, Sample(resident_mb(broker.pid)))
    return [*table.values(), *([after] if memory else [])]


def measured(broker: Broker, case: Case, topic: str) -> list[Sample]:
    broker.create_topic(topic, case.partitions)
    if case.prepare is not None:
        case.prepare(broker.address, topic)
    os.sync()  # nobody pays for what another one wrote
    before = cpu_seconds(broker.pid)
    values = case.run(broker.address, topic)
    used = cpu_seconds(broker.pid) - before
    broker.delete_topic(topic)
    per_gb = used / case.payload_bytes * 1e9 if case.payload_bytes else None
    say("  " + f"{broker.name}: " + ", ".join(f"{value:,.2f}" for value in values))
    return [Sample(value, per_gb) for value in values]


def turn(number: int) -> list[str]:
    """Another one begins each round."""
    at = number % len(SYSTEMS)
    return [*SYSTEMS[at:], *SYSTEMS[:at]]


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
