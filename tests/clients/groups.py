"""A node for tests of groups: it does not wait for late members, and sessions may be short."""

from __future__ import annotations

PARTITIONS = 4
SECONDS_MAX = 60
FLAGS = (
    *("--group-initial-rebalance-delay-ms", "0"),
    *("--group-min-session-timeout-ms", "500"),
    *("--group-consumer-heartbeat-interval-ms", "200"),
    *("--num-partitions", str(PARTITIONS)),
    *("--topic-flush", "os", "--log-level", "warning"),
)
