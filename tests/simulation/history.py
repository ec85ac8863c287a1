"""What clients did and what they were answered; and what the logs hold in the end. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stratamq.client import TopicPartition


class Outcome(StrEnum):
    DONE = "acknowledged"
    REFUSED = "refused: it must not be there"
    UNKNOWN = "no answer: it is there once, or not at all"


@dataclass(slots=True)
class Send:
    """One record of one client; its value is unique in the run."""

    client: str
    place: TopicPartition
    value: bytes
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1
    """Where it was stored, if that was answered."""
    transaction: int | None = None
    """In `History.transactions`."""


@dataclass(slots=True)
class Txn:
    """DONE: the commit was acknowledged. REFUSED: the abort was."""

    outcome: Outcome = Outcome.UNKNOWN
    offsets: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    """Of groups, committed with it."""


@dataclass(frozen=True, slots=True)
class Read:
    """A record as a client saw it during the run."""

    place: TopicPartition
    offset: int
    value: bytes
    committed: bool
    """Whether only committed records were asked for."""


@dataclass(slots=True)
class History:
    sends: list[Send] = field(default_factory=list)
    transactions: list[Txn] = field(default_factory=list)
    reads: dict[Read, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Log:
    """A partition at the end, by offset."""

    records: Mapping[int, bytes]
    committed: Mapping[int, bytes]
    start: int
    stable: int
    """How far readers of committed records get."""
    end: int


@dataclass(frozen=True, slots=True)
class Logs:
    partitions: Mapping[TopicPartition, Log]
    offsets: Mapping[tuple[str, TopicPartition], int]
    """Of groups."""
