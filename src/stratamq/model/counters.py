"""Plain counters, for parts that count what they do while they do it.

An owner adds to the fields of its own counters, with no call and no lock; the console reads them
when it is asked. All of one object are written by one thread, or under its owner's lock.
"""

from __future__ import annotations

from bisect import bisect_left

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of every histogram; what takes longer is in one more."""


class Durations:
    """How long something took, each time: a histogram. `counts[i]` are those of at most
    `SECONDS[i]`, and of more than the bound before it."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.total_s = 0.0

    def add(self, took_s: float) -> None:
        """On paths where a call more does not matter; others do the same in place."""
        self.counts[bisect_left(SECONDS, took_s)] += 1
        self.total_s += took_s


class TopicTraffic:
    """What was appended to the shards of a topic on this node, and sent to consumers from them.
    Belongs to the event loop. `offsets_out` counts the offsets that answers led consumers over: a
    fetch does not unpack its records to count them."""

    __slots__ = ("__weakref__", "bytes_in", "bytes_out", "offsets_out", "records_in")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = 0
        self.records_in = self.offsets_out = 0
