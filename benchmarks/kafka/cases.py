"""Every row of the table that is a load. None is left out in a quick run; it is only smaller."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.kafka import latency, librdkafka, perf_tools
from benchmarks.kafka.table import Goal

SIZES = {"100 B": 100, "1 KiB": 1024}
LOADERS: Mapping[str, Callable[..., float]] = {
    "ProducerPerformance": perf_tools.produce,
    "librdkafka": librdkafka.produce,
}
ONE_EACH = {
    "ProducerPerformance": {"batch.size": "1", "linger.ms": "0"},
    "librdkafka": {"batch.num.messages": "1", "linger.ms": "0"},
}
"""A record fills a batch and a batch is sent at once: one message per request."""
IN_FLIGHT = "max.in.flight.requests.per.connection"
LATENCY_RATE = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much one measurement moves."""

    records: Mapping[int, int]
    requests: int
    latency_seconds: float
    rounds: int


FULL = Scale(records={100: 2_000_000, 1024: 500_000}, requests=10_000, latency_seconds=20, rounds=5)
QUICK = Scale(records={100: 250_000, 1024: 60_000}, requests=1500, latency_seconds=3, rounds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One load. `run` gives a value for each of `rows`; `prepare` comes before the clock starts."""

    rows: tuple[str, ...]
    unit: str
    goal: Goal
    partitions: int = 1
    payload_bytes: int = 0
    run: Callable[[str, str], tuple[float, ...]]
    prepare: Callable[[str, str], object] | None = None


def cases(scale: Scale) -> Iterator[Case]:
    yield from producing(scale)
    yield from consuming(scale)
    yield one_each(scale, "librdkafka", in_flight=1)
    yield one_each(scale, "librdkafka", in_flight=64)
    yield one_each(scale, "ProducerPerformance", in_flight=1)
    yield end_to_end(scale)


def producing(scale: Scale) -> Iterator[Case]:
    combinations = itertools.product(
        SIZES.items(), ("none", "lz4"), (1, 16), ("1", "all"), LOADERS.items()
    )
    for (label, size), codec, partitions, acks, (loader, produce) in combinations:
        settings = {"acks": acks, "compression.type": codec}
        records = scale.records[size]
        yield Case(
            rows=(f"produce {label}, {codec}, {partitions} part., acks={acks}, {loader}",),
            unit="msg/s",
            goal=Goal.FASTER,
            partitions=partitions,
            payload_bytes=records * size,
            run=_producing(produce, records, size, settings),
        )


def _producing(
    produce: Callable[..., float], records: int, size: int, settings: Mapping[str, str]
) -> Callable[[str, str], tuple[float, ...]]:
    def run(address: str, topic: str) -> tuple[float, ...]:
        return (produce(address, topic, records=records, size=size, settings=settings),)

    return run


def consuming(scale: Scale) -> Iterator[Case]:
    """What was produced just before: it comes from the page cache."""
    for (label, size), partitions in itertools.product(SIZES.items(), (1, 16)):
        records = scale.records[size]
        for loader in ("ConsumerPerformance", "librdkafka"):
            yield Case(
                rows=(f"consume {label}, none, {partitions} part., {loader}",),
                unit="msg/s",
                goal=Goal.FASTER,
                partitions=partitions,
                payload_bytes=records * size,
                prepare=_producing(librdkafka.produce, records, size, {"acks": "all"}),
                run=_consuming(loader, records, partitions),
            )


def _consuming(
    loader: str, records: int, partitions: int
) -> Callable[[str, str], tuple[float, ...]]:
    def run(address: str, topic: str) -> tuple[float, ...]:
        if loader == "librdkafka":
            return (librdkafka.consume(address, topic, records=records, partitions=partitions),)
        return (perf_tools.consume(address, topic, records=records),)

    return run


def one_each(scale: Scale, loader: str, *, in_flight: int) -> Case:
    settings = {"acks": "1", IN_FLIGHT: str(in_flight), **ONE_EACH[loader]}
    return Case(
        rows=(f"one 100 B message per request, {in_flight} in flight, {loader}",),
        unit="msg/s",
        goal=Goal.FASTER,
        run=_producing(LOADERS[loader], scale.requests, 100, settings),
    )


def end_to_end(scale: Scale) -> Case:
    def run(address: str, topic: str) -> tuple[float, ...]:
        found = latency.measure(
            address, topic, rate=LATENCY_RATE, seconds=scale.latency_seconds, size=100
        )
        return found.p50_ms, found.p99_ms, found.p999_ms

    what = f"end to end at {LATENCY_RATE:,} msg/s of 100 B, acks=all, librdkafka"
    return Case(
        rows=tuple(f"{what}, {share}" for share in ("p50", "p99", "p99.9")),
        unit="ms",
        goal=Goal.SOONER,
        run=run,
    )
