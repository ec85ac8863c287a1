"""Shards and their segments: names, offsets, and the life of a segment.

`TRANSITIONS` is the only place that decides what becomes of a segment:

    ACTIVE --limit reached--> SEALING --replicas equal--> SEALED --uploaded--> COLD
                                                             \\________________/
    every state --expired or topic deleted--> DELETING                (fetched back: SEALED)

A segment is written only while ACTIVE, has a leader while ACTIVE or SEALING, and is immutable from
SEALED on.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stratamq.model.errors import IllegalTransition
from stratamq.model.types import Offset, ShardName, TopicId


def shard_name(topic_id: TopicId, partition: int) -> ShardName:
    return ShardName(f"{topic_id}_{partition}")


def split_shard_name(name: ShardName) -> tuple[TopicId, int]:
    topic_id, _, partition = name.rpartition("_")
    return TopicId(topic_id), int(partition)


class ShardOffsets(NamedTuple):
    """start <= high_watermark <= end. Consumers see start..high_watermark - 1."""

    start: Offset
    high_watermark: Offset
    end: Offset


class SegmentState(StrEnum):
    ACTIVE = "active"
    SEALING = "sealing"
    SEALED = "sealed"
    COLD = "cold"
    DELETING = "deleting"


class SegmentEvent(StrEnum):
    LIMIT_REACHED = "limit_reached"
    REPLICAS_EQUAL = "replicas_equal"
    UPLOADED = "uploaded"
    FETCHED_BACK = "fetched_back"
    EXPIRED = "expired"


TRANSITIONS: dict[tuple[SegmentState, SegmentEvent], SegmentState] = {
    (SegmentState.ACTIVE, SegmentEvent.LIMIT_REACHED): SegmentState.SEALING,
    (SegmentState.SEALING, SegmentEvent.REPLICAS_EQUAL): SegmentState.SEALED,
    (SegmentState.SEALED, SegmentEvent.UPLOADED): SegmentState.COLD,
    (SegmentState.COLD, SegmentEvent.FETCHED_BACK): SegmentState.SEALED,
    (SegmentState.ACTIVE, SegmentEvent.EXPIRED): SegmentState.DELETING,
    (SegmentState.SEALED, SegmentEvent.EXPIRED): SegmentState.DELETING,
    (SegmentState.COLD, SegmentEvent.EXPIRED): SegmentState.DELETING,
}


def after(state: SegmentState, event: SegmentEvent) -> SegmentState:
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"a segment that is {state} cannot take {event}") from None


def has_leader(state: SegmentState) -> bool:
    return state in (SegmentState.ACTIVE, SegmentState.SEALING)
