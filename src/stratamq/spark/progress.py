"""Offsets of a stream as Spark stores and shows them: `{"orders": {"0": 17}}`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stratamq.client import TopicPartition

Told = dict[str, dict[str, int]]


def told(offsets: Mapping[TopicPartition, int]) -> Told:
    found: Told = {}
    for place, offset in sorted(offsets.items()):
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return found


def offsets_of(said: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in said.items()
        for partition, offset in partitions.items()
    }


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """How far a query is behind, by partition, from `query.lastProgress` (as a dict).

    Spark shows for each source where it has read to and where the topics ended.
    """
    behind: dict[TopicPartition, int] = {}
    for source in progress.get("sources", ()):
        ends, latest = _parsed(source.get("endOffset")), _parsed(source.get("latestOffset"))
        for place, offset in latest.items():
            behind[place] = offset - ends.get(place, 0)
    return behind


def _parsed(text: object) -> dict[TopicPartition, int]:
    said = json.loads(text) if isinstance(text, str) else text
    if not isinstance(said, dict) or not all(isinstance(part, dict) for part in said.values()):
        return {}  # another kind of source
    return offsets_of(said)
