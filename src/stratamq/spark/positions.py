"""Where to begin and to end, as users say it. Pure.

`earliest`, `latest`, or JSON by topic and partition as Spark's Kafka source has it
(`{"orders": {"0": 23, "1": -2}}`, with -2 for earliest and -1 for latest); or a time in ms. An `id`
beside the partitions, as streams report it, says of which topic of that name the offsets are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stratamq.client import EARLIEST, LATEST, TopicPartition
from stratamq.model.errors import InvalidConfig

ID = "id"
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
    ids: Mapping[str, bytes] = field(default_factory=dict)

    def of(self, place: TopicPartition) -> Position:
        return self.named.get(place, self.other)

    def without(self, topics: Collection[str]) -> Positions:
        named = {place: one for place, one in self.named.items() if place.topic not in topics}
        return Positions(self.other, named)


def positions_of(options: Mapping[str, str], side: str, default: str) -> Positions:
    """From `{side}Timestamp`, else `{side}OffsetsByTimestamp`, else `{side}Offsets`."""
    unnamed = Position(WORDS["earliest" if side == "starting" else "latest"], False)
    if (text := options.get(f"{side}timestamp")) is not None:
        return Positions(Position(_time(text, f"{side}Timestamp"), False))
    if (text := options.get(f"{side}offsetsbytimestamp")) is not None:
        name = f"{side}OffsetsByTimestamp"
        return _named(unnamed, text, name, by_time=True)
    name, text = f"{side}Offsets", options.get(f"{side}offsets", default)
    if text.lower() in WORDS:
        return Positions(Position(WORDS[text.lower()], False))
    return _named(unnamed, text, name, by_time=False)


def _time(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise InvalidConfig(f"{name} must be a time in milliseconds since 1970, not {text!r}")
    return int(text)


def _named(other: Position, text: str, name: str, *, by_time: bool) -> Positions:
    try:
        topics = json.loads(text).items()
        named = {
            TopicPartition(topic, int(partition)): _position(value, by_time)
            for topic, partitions in topics
            for partition, value in partitions.items()
            if partition != ID
        }
        ids = {topic: bytes.fromhex(parts[ID]) for topic, parts in topics if ID in parts}
        return Positions(other, named, ids)
    except (ValueError, AttributeError, TypeError):
        words = "" if by_time else "earliest, latest, or "
        raise InvalidConfig(
            f'{name} must be {words}JSON such as {{"orders": {{"0": 23}}}}, not {text!r}'
        ) from None


def _position(value: object, by_time: bool) -> Position:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(value)
    return Position(value, not by_time and value >= 0)
