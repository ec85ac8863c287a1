"""What a producer waits for."""

from __future__ import annotations

from enum import StrEnum


class Acks(StrEnum):
    """Who must have a record before its producer hears of it.

    Kafka's numbers are mapped at its edge: 0 and 1 to the first two, -1 by the topic's
    `commit.policy` to one of the others.
    """

    NONE = "0"
    LEADER = "1"
    QUORUM = "quorum"
    ALL = "all"
