"""Metrics as text for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import accumulate
from typing import TypeVar

from stratamq.model.counters import SECONDS, Durations
from stratamq.model.dataclass import dataclass

L = TypeVar("L", bound=tuple[str, ...])
"""Values of labels."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A name with all its rows. `help` says what it tells, `labels` what rows differ in."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()

    def value(self, value: float) -> str:
        """The whole of a metric that has no labels."""
        return f"{self._head()}{self.name} {value}\n"

    def rows(self, values: Mapping[L, float]) -> str:
        """The values by those of the labels."""
        rows = [
            f"{self.name}{braced(self.labels, labels)} {value}\n"
            for labels, value in values.items()
        ]
        return self._head() + "".join(rows)

    def by_one_label(self, values: Iterable[tuple[str, float]]) -> str:
        """The same for many rows, where `braced` was called before: topics have several each."""
        return self._head() + "".join(
            [f"{self.name}{labels} {value}\n" for labels, value in values]
        )

    def histograms(self, found: Mapping[L, Durations]) -> str:
        text, names = [self._head()], (*self.labels, "le")
        for labels, durations in found.items():
            counts = list(accumulate(durations.counts))
            for bound, count in zip((*SECONDS, "+Inf"), counts, strict=True):
                text.append(f"{self.name}_bucket{braced(names, (*labels, str(bound)))} {count}\n")
            own = braced(self.labels, labels)
            text.append(f"{self.name}_sum{own} {durations.total_s}\n")
            text.append(f"{self.name}_count{own} {counts[-1]}\n")
        return "".join(text)

    def _head(self) -> str:
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n"


def braced(names: Iterable[str], values: Iterable[str]) -> str:
    pairs = zip(names, values, strict=True)
    inside = ",".join([f'{name}="{_escaped(value)}"' for name, value in pairs])
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    """A group may have any name."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
