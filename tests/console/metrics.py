"""The metrics of a running node, as Prometheus' own parser reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.console.web import get

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Scrape:
    """All samples of one answer. A row that comes twice is an error for Prometheus, too."""

    def __init__(self, text: str) -> None:
        self.families = {one.name: one for one in text_string_to_metric_families(text)}
        self.samples: Samples = {}
        for family in self.families.values():
            for sample in family.samples:
                key = sample.name, tuple(sorted(sample.labels.items()))
                assert key not in self.samples, key
                self.samples[key] = sample.value

    def __getitem__(self, name: str) -> float:
        return self.of(name)

    def of(self, name: str, **labels: str) -> float:
        return self.samples.get((f"stratamq_{name}", tuple(sorted(labels.items()))), 0.0)

    def label(self, name: str, label: str) -> set[str]:
        """The values that a label of a metric has."""
        rows = [labels for metric, labels in self.samples if metric == f"stratamq_{name}"]
        return {dict(labels)[label] for labels in rows}


def scrape(console: tuple[str, int]) -> Scrape:
    answer = get(console, "/metrics")
    assert answer.status == 200
    assert answer.kind == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(answer.text)
