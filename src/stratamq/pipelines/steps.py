"""What each step of a run is at, from what Spark says about it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_FLOW = re.compile(r"Flow '?(?P<name>[^\s']+)'? (?:is|has) (?P<state>[A-Z]+)\.?(?P<rest>.*)", re.S)
_ERROR = re.compile(r"Error: (.*?)(?:\n=== Streaming Query ===|\Z)", re.S)
_SUMMARY = re.compile(r"terminated with exception: (.*)", re.S)
_OFFSETS = re.compile(r"^Current (Committed|Available) Offsets: \{(.*)\}$", re.M)
_NOISE = re.compile(r"\s*SQLSTATE: \w+.*", re.S)

DONE = ("COMPLETED", "FAILED", "SKIPPED", "EXCLUDED", "STOPPED", "IDLE")


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """`rows` were read by it; `lag` is how many records of topics are still ahead of it."""

    name: str
    state: str = "QUEUED"
    rows: int | None = None
    lag: int | None = None
    error: str = ""

    @property
    def is_done(self) -> bool:
        return self.state in DONE


class PipelineSteps:
    """The steps of one run, in the order in which they came up."""

    def __init__(self) -> None:
        self._found: dict[str, PipelineStep] = {}

    def __iter__(self) -> Iterator[PipelineStep]:
        return iter(list(self._found.values()))

    def note(self, message: str) -> PipelineStep | None:
        """An event of the pipeline; the step it changed."""
        found = _FLOW.match(message)
        if found is None:
            return None
        name, state = short(found["name"]), found["state"]
        before = self._found.get(name, PipelineStep(name))
        if (before.state, state) == ("FAILED", "COMPLETED"):
            return None  # Spark says both of a flow that failed, in any order
        after = replace(before, state=state, error=reason(found["rest"]) or before.error)
        self._found[name] = after
        return after if after != before else None

    def progress(self, name: str, rows: int, lag: int | None) -> None:
        """A micro-batch of a step was done."""
        before = self._found.get(short(name), PipelineStep(short(name)))
        self._found[before.name] = replace(before, rows=(before.rows or 0) + rows, lag=lag)

    def count(self, name: str, rows: int) -> None:
        """A step that is no stream made a table of so many rows."""
        self._found[name] = replace(self._found[name], rows=rows)

    @property
    def failed(self) -> list[PipelineStep]:
        return [step for step in self._found.values() if step.state == "FAILED"]

    @property
    def suspects(self) -> list[PipelineStep]:
        """Of a run that failed: those that did, or else those that did once and were not heard of
        again. Spark may end a run before it has reported why."""
        return self.failed or [step for step in self._found.values() if step.error]


def short(name: str) -> str:
    """Without catalog and schema."""
    return name.rpartition(".")[2]


def reason(text: str) -> str:
    """Why a flow failed, in a line."""
    found = _ERROR.search(text)
    if found is None:
        return ""
    error = found[1]
    if (inner := _SUMMARY.search(error)) is not None:
        error = inner[1]
    return " ".join(_NOISE.sub("", error).split())


def offsets_in(message: str) -> dict[str, str]:
    """Where a stream was when it failed: what it says of its sources, as it says it."""
    return {kind.lower(): said for kind, said in _OFFSETS.findall(message)}
