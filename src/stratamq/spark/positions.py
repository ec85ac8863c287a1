"""Where to begin and to end, as users say it, and where a stream is, as Spark stores it. Pure.

A user says `earliest`, `latest`, or JSON by topic and partition as Spark's Kafka source has it
(`{"orders": {"0": 23, "1": -2}}`, with -2 for earliest and -1 for latest); or a time in ms. Spark
stores in a checkpoint, and shows in `lastProgress`:

    {"orders": {"id": "8f3c...", "0": 17, "1": 4}}

By topic: the next offset of each partition, and the id of the topic whose offsets they are. A topic
that is deleted and created again has the same name and another id, so its offsets are not mistaken
for those of the topic before it. Checkpoints of earlier versions have no ids.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stratamq.client import EARLIEST, LATEST, TopicPartition
from stratamq.model.errors import InvalidConfig
from stratamq.spark.failures import recreated

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
    """Read positions from `{side}Timestamp`, else `{side}OffsetsByTimestamp`, else
    `{side}Offsets`."""
    unnamed = Position(WORDS["earliest" if side == "starting" else "latest"], False)
    if (text := options.get(f"{side}timestamp")) is not None:
        if not text.isascii() or not text.isdigit():
            raise InvalidConfig(
                f"{side}Timestamp must be a time in milliseconds since 1970, not {text!r}"
            )
        return Positions(Position(int(text), False))
    if (text := options.get(f"{side}offsetsbytimestamp")) is not None:
        name = f"{side}OffsetsByTimestamp"
        return _named(unnamed, text, name, by_time=True)
    name, text = f"{side}Offsets", options.get(f"{side}offsets", default)
    if text.lower() in WORDS:
        return Positions(Position(WORDS[text.lower()], False))
    return _named(unnamed, text, name, by_time=False)


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


StoredOffsets = dict[str, dict[str, int | str]]
"""What the JSON holds."""


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """The next offset of each partition, and the ids of their topics by name."""

    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def parse(cls, stored: Mapping[str, Mapping[str, Any]]) -> StreamOffsets:
        """ValueError, TypeError or AttributeError if it is something else."""
        offsets = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, parts in stored.items()
            for partition, offset in parts.items()
            if partition != ID
        }
        ids = {topic: bytes.fromhex(parts[ID]) for topic, parts in stored.items() if ID in parts}
        return cls(offsets, ids)

    def stored(self) -> StoredOffsets:
        found: StoredOffsets = {}
        for place, offset in sorted(self.offsets.items()):
            topic_id = self.ids.get(place.topic)
            known: dict[str, int | str] = {ID: topic_id.hex()} if topic_id else {}
            found.setdefault(place.topic, known)[str(place.partition)] = offset
        return found

    def without(self, topics: Collection[str]) -> StreamOffsets:
        return StreamOffsets(
            {place: offset for place, offset in self.offsets.items() if place.topic not in topics},
            {name: topic_id for name, topic_id in self.ids.items() if name not in topics},
        )


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return how many offsets a query has still to read, by partition, from `query.lastProgress`
    (as a dict).

    Spark shows for each source where it has read to and where the topics ended.
    """
    missing: dict[TopicPartition, int] = {}
    for source in progress.get("sources", ()):
        ends, latest = _parsed(source.get("endOffset")), _parsed(source.get("latestOffset"))
        ends = ends.without([one.name for one in recreated(ends.ids, latest.ids)])
        for place, offset in latest.offsets.items():
            missing[place] = offset - ends.offsets.get(place, 0)
    return missing


def _parsed(text: object) -> StreamOffsets:
    try:
        return StreamOffsets.parse(json.loads(text) if isinstance(text, str) else text)  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        return StreamOffsets({})  # another kind of source
