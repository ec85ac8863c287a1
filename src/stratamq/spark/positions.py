"""Where to begin and to end, as users say it. Pure.

`earliest`, `latest`, or JSON by topic and partition as Spark's Kafka source has it
(`{"orders": {"0": 23, "1": -2}}`, with -2 for earliest and -1 for latest); or a time in ms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stratamq.client import EARLIEST, LATEST, TopicPartition
from stratamq.model.errors import InvalidConfig

WORDS = {"earliest": EARLIEST, "latest": LATEST}


class Position(NamedTuple):
    """An offset, or what to ask the node for: a time in ms, LATEST or EARLIEST."""

    value: int
    is_offset: bool


@dataclass(frozen=True, slots=True)
class Positions:
    """One for each partition that is named, and one for all others."""

    other: Position
    named: Mapping[TopicPartition, Position] = field(default_factory=dict)

    def of(self, place: TopicPartition) -> Position:
        return self.named.get(place, self.other)


def positions_of(options: Mapping[str, str], side: str, default: str) -> Positions:
    """From `{side}Timestamp`, else `{side}OffsetsByTimestamp`, else `{side}Offsets`."""
    unnamed = Position(WORDS["earliest" if side == "starting" else "latest"], False)
    if (text := options.get(f"{side}timestamp")) is not None:
        return Positions(Position(_time(text, f"{side}Timestamp"), False))
    if (text := options.get(f"{side}offsetsbytimestamp")) is not None:
        name = f"{side}OffsetsByTimestamp"
        return Positions(unnamed, _named(text, name, by_time=True))
    name, text = f"{side}Offsets", options.get(f"{side}offsets", default)
    if text.lower() in WORDS:
        return Positions(Position(WORDS[text.lower()], False))
    return Positions(unnamed, _named(text, name, by_time=False))


def _time(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidConfig(f"{name} must be a time in milliseconds since 1970, not {text!r}")
    return int(text)


def _named(text: str, name: str, *, by_time: bool) -> dict[TopicPartition, Position]:
    try:
        return {
            TopicPartition(topic, int(partition)): _position(value, by_time)
            for topic, partitions in json.loads(text).items()
            for partition, value in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        words = "" if by_time else "earliest, latest, or "
        raise InvalidConfig(
            f'{name} must be {words}JSON such as {{"orders": {{"0": 23}}}}, not {text!r}'
        ) from None


def _position(value: object, by_time: bool) -> Position:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(value)
    return Position(value, not by_time and value >= 0)
