"""Where a stream is, as Spark stores it in a checkpoint and shows it in `lastProgress`. Pure.

    {"orders": {"id": "8f3c...", "0": 17, "1": 4}}

By topic: the next offset of each partition, and the id of the topic whose offsets they are. A topic
that is deleted and made again has the same name and another id, so its offsets are not mistaken for
those of the topic before it. Checkpoints of earlier versions have no ids.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from stratamq.client import TopicPartition
from stratamq.spark.losses import recreated
from stratamq.spark.positions import ID

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
    """How far a query is behind, by partition, from `query.lastProgress` (as a dict).

    Spark shows for each source where it has read to and where the topics ended.
    """
    behind: dict[TopicPartition, int] = {}
    for source in progress.get("sources", ()):
        ends, latest = _parsed(source.get("endOffset")), _parsed(source.get("latestOffset"))
        ends = ends.without([one.name for one in recreated(ends.ids, latest.ids)])
        for place, offset in latest.offsets.items():
            behind[place] = offset - ends.offsets.get(place, 0)
    return behind


def _parsed(text: object) -> StreamOffsets:
    try:
        return StreamOffsets.parse(json.loads(text) if isinstance(text, str) else text)  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        return StreamOffsets({})  # another kind of source
