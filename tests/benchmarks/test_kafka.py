"""The pure parts of the comparison with Apache Kafka: what tools print, and what the table says."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from benchmarks.kafka.brokers import (
    FLUSH_OS,
    FLUSH_SYNC,
    KAFKA,
    SYSTEMS,
    as_properties,
    kafka_settings,
)
from benchmarks.kafka.cases import FULL, QUICK, cases
from benchmarks.kafka.latency import percentiles
from benchmarks.kafka.perf_tools import parse_consumed, parse_produced
from benchmarks.kafka.processes import parse_cpu_ticks
from benchmarks.kafka.report import page
from benchmarks.kafka.table import Goal, Row, Sample, as_markdown, ratios, summary

PRODUCED = """\
250001 records sent, 50000.2 records/sec (4.77 MB/sec), 310.2 ms avg latency, 512.0 ms max latency.
500000 records sent, 61050.1 records/sec (5.82 MB/sec), 290.05 ms avg latency, 512.00 ms max \
latency, 301 ms 50th, 480 ms 95th, 505 ms 99th, 511 ms 99.9th.
"""
CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-01-02 03:04:05:678, 2026-01-02 03:04:09:679, 47.7, 11.9, 500137, 125002.9, 3021, 980, 48.7, \
510343.9
"""


def test_the_summary_of_the_producer_tool_is_its_last_line() -> None:
    found = parse_produced(PRODUCED)
    assert (found.records, found.rate) == (500_000, 61050.1)


def test_the_consumer_tools_rate_leaves_the_rebalance_out() -> None:
    found = parse_consumed(CONSUMED)
    assert (found.records, found.rate) == (500_137, 510343.9)


@pytest.mark.parametrize("parse", [parse_produced, parse_consumed])
def test_output_without_a_summary_is_an_error(parse: object) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match="no summary"):
        parse("org.apache.kafka.common.errors.TimeoutException: no topic")


def test_processor_time_is_found_behind_any_name() -> None:
    stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 900 0 0 0 150 25 0 0 20 0 9 0 100 200 300"
    assert parse_cpu_ticks(stat) == 175


def test_percentiles_are_in_milliseconds() -> None:
    found = percentiles([number * 1_000_000 for number in range(1000, 0, -1)])
    assert (found.p50_ms, found.p99_ms, found.p999_ms) == (501, 991, 1000)


def row(goal: Goal, kafka: list[float], ours: list[float]) -> Row:
    made = Row("a case", "msg/s", goal)
    for theirs, our in zip(kafka, ours, strict=True):
        made.add(KAFKA, Sample(theirs, cpu=2.0))
        made.add(FLUSH_OS, Sample(our, cpu=1.0))
    return made


def test_a_ratio_is_taken_round_by_round() -> None:
    """A machine that is slow for a round is slow for both: the ratio does not move."""
    made = row(Goal.FASTER, [100, 10, 100], [150, 15, 50])
    assert ratios(made, FLUSH_OS) == [1.5, 1.5, 0.5]
    assert ratios(made, FLUSH_SYNC) == []
    line = as_markdown([made]).splitlines()[2]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        *("a case", "msg/s", "100", "50.00", "-"),
        *("1.50 (0.50..1.50)", ">= 1.0", "yes", "-", "2.0, 1.0, -"),
    ]


@pytest.mark.parametrize(
    ("goal", "ratio", "met"),
    [
        (Goal.FASTER, 1.0, True),
        (Goal.FASTER, 0.99, False),
        (Goal.SOONER, 1.0, True),
        (Goal.SOONER, 1.01, False),
        (Goal.QUARTER, 0.25, True),
        (Goal.QUARTER, 0.26, False),
        (Goal.TENTH, 0.1, True),
        (Goal.TENTH, 0.11, False),
        (Goal.NONE, 5.0, None),
    ],
)
def test_goals(goal: Goal, ratio: float, met: bool | None) -> None:
    assert goal.met(ratio) is met


def test_the_summary_counts_rows_with_a_goal() -> None:
    rows = [row(Goal.FASTER, [10], [11]), row(Goal.FASTER, [10], [9]), row(Goal.NONE, [10], [9])]
    assert summary(rows) == "1 of 2 rows with a goal reach it."


def test_a_quick_run_leaves_no_case_out() -> None:
    quick, full = ([what for case in cases(scale) for what in case.rows] for scale in (QUICK, FULL))
    assert quick == full
    assert len(set(full)) == len(full)
    produce = [what for what in full if what.startswith("produce")]
    assert len(produce) == 2 * 2 * 2 * 2 * 2, "size, codec, partitions, acks, loader"


def test_kafka_runs_with_its_defaults() -> None:
    """But for addresses, folders, and what one node cannot do."""
    settings = kafka_settings(Path("/logs"), 1, 2)
    assert not any(re.match("num|log.flush|log.segment|socket", name) for name in settings)
    assert "listeners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n" in as_properties(settings)


@pytest.mark.needs("java", "mvn")
@pytest.mark.timeout(900)
def test_the_page_says_how_to_repeat_it() -> None:
    from tests.peers.kafka import class_path

    class_path()
    rows = [row(Goal.FASTER, [10], [11])]
    text = page(rows, 3, "--quick", date(2026, 1, 2), load_before=7.0)
    assert '`make bench-kafka ARGS="--quick"`, 2026-01-02, rounds: 3' in text
    assert "Apache Kafka 4.1" in text
    assert "others were using the processors" in text
    assert "others were" not in page(rows, 3, "", date(2026, 1, 2), load_before=0.2)
    assert all(system in text for system in SYSTEMS)
