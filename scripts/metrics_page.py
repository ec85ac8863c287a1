"""Write docs/metrics.md from the table of metrics, so that the page cannot lag behind it."""

from __future__ import annotations

from pathlib import Path

from stratamq.console.metrics import METRICS, Metric

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"

HEAD = """\
# Health and metrics

Written by `make docs` from `src/stratamq/console/metrics.py` and `scripts/metrics_page.py`. Do
not edit it by hand.

A node answers HTTP on its console port, 8080 unless `console.port` says otherwise; the ready line
has the address (`console=127.0.0.1:8080`). It listens on this machine alone until `console.host`
is set. It does not authenticate its clients: let only your own machines reach it. `console.port =
-1` turns it off.

| path | answer |
|---|---|
| `/healthz` | 200 while the process lives and its event loop turns |
| `/readyz` | 200 when storage is open and the Kafka front serves; else 503 |
| `/metrics` | the metrics below, as text for Prometheus |

JSON says what is missing: `{"ready": false, "missing": {"kafka": "starting"}}`. A node that was
asked to stop is not ready.

All of them answer while a node still recovers its shards; metrics of storage and clients come
when those have started. Let a supervisor restart a node by `/healthz`, and a load balancer send
it clients by `/readyz`.

Prometheus finds a node by:

```yaml
scrape_configs:
  - job_name: stratamq
    static_configs:
      - targets: ["127.0.0.1:8080"]
```

`deploy/grafana/stratamq.json` is a dashboard to import, `deploy/prometheus/alerts.yml` has alert
rules; what to do about each alert stands in [the runbook](runbook.md#alerts).

## Limits

Labels are bounded: names of topics that do not exist never become one. The first
`metrics.topics.max` topics have rows of their own, and the others are summed up in a row named
`(other topics)`, which no topic can be called. Lag has a row for `metrics.groups.max` groups;
`stratamq_group_lag_omitted` counts the others.

With 10,000 shards in 2,000 topics an answer takes about 10 ms of processor time, in steps of a
few milliseconds; clients are served between them. The bytes of segments and the lag of groups are
summed up in the background, at most every 10 seconds.

## Metrics

Counters (`_total`) and histograms begin at 0 when the process starts.

"""


def page() -> str:
    rows = ["| metric | kind | labels | what it tells |", "|---|---|---|---|"]
    return HEAD + "\n".join([*rows, *map(row, METRICS)]) + "\n"


def row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


if __name__ == "__main__":
    PAGE.write_text(page())
