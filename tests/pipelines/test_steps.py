"""What a run's events mean, and how the failing record is found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stratamq.client import TopicPartition
from stratamq.pipelines.culprit import halved, ranges_in
from stratamq.pipelines.steps import PipelineStep, PipelineSteps

FAILED = """Flow 'spark_catalog.default.cleaned' has FAILED.
Error: [STREAM_FAILED] Query [id = 7, runId = 8] terminated with exception: [DIVIDE_BY_ZERO]
Division by zero. SQLSTATE: 22012
== SQL (line 1, position 1) ==
1/(value-50)
=== Streaming Query ===
Identifier: spark_catalog.default.cleaned [id = 7, runId = 8]
Current Committed Offsets: {stratamq: {"orders":{"0":10,"1":4}}}
Current Available Offsets: {stratamq: {"orders":{"0":90,"1":4,"2":3}}}
"""


def test_steps_follow_events() -> None:
    steps = PipelineSteps()
    steps.note("Flow spark_catalog.default.cleaned is QUEUED.")
    steps.note("Run is RUNNING.")
    steps.note("Flow spark_catalog.default.cleaned is RUNNING.")
    steps.progress("spark_catalog.default.cleaned", 10, 5)
    steps.progress("spark_catalog.default.cleaned", 5, 0)
    assert steps.note("Flow spark_catalog.default.cleaned has COMPLETED.") == PipelineStep(
        "cleaned", "COMPLETED", 15, 0
    )
    assert list(steps) == [PipelineStep("cleaned", "COMPLETED", 15, 0)]
    assert steps.failed == []


def test_a_failure_is_told_in_a_line() -> None:
    steps = PipelineSteps()
    steps.note(FAILED)
    (failed,) = steps.failed
    assert failed.error == "[DIVIDE_BY_ZERO] Division by zero."


def test_what_failed_is_not_completed_until_it_starts_again() -> None:
    steps = PipelineSteps()
    steps.note("Flow spark_catalog.default.cleaned has COMPLETED.")
    steps.note(FAILED)
    assert steps.note("Flow spark_catalog.default.cleaned has COMPLETED.") is None
    assert [step.name for step in steps.failed] == ["cleaned"]
    steps.note("Flow spark_catalog.default.cleaned is STARTING.")
    steps.note("Flow spark_catalog.default.cleaned has COMPLETED.")
    assert steps.failed == []


def test_a_failure_says_what_was_being_read() -> None:
    assert ranges_in(FAILED) == {
        TopicPartition("orders", 0): (10, 90),
        TopicPartition("orders", 2): (0, 3),
    }
    assert ranges_in("Current Available Offsets: {rate: 5}") == {}


@given(st.integers(0, 1000), st.integers(1, 1000), st.data())
def test_halving_finds_the_first_failing_record(
    start: int, count: int, data: st.DataObject
) -> None:
    bad = data.draw(st.sets(st.integers(start, start + count - 1), min_size=1))
    asked: list[tuple[int, int]] = []

    def fails(low: int, high: int) -> bool:
        asked.append((low, high))
        return any(low <= one < high for one in bad)

    assert halved(start, start + count, fails) == min(bad)
    assert len(asked) <= count.bit_length()
