"""Which of a group's offsets are past their time. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.subscribed import subscribed_topics
from stratamq.meta.groups import Offsets
from stratamq.model.shard import split_shard_name
from stratamq.model.types import ShardName, TopicId


def expired(
    offsets: Offsets,
    group: ClassicGroup | ConsumerGroup | None,
    names: Mapping[TopicId, str],
    now_ms: int,
    retention_ms: int,
) -> set[ShardName]:
    """A group that was left keeps its offsets from then on, one that never had members from each
    commit on. While it has members, offsets of topics they read do not expire."""
    if group is None:
        used, since_ms = frozenset[str](), 0
    elif group.state == "Empty":
        used, since_ms = frozenset[str](), group.since_ms
    else:
        topics = subscribed_topics(group)
        if topics is None:
            return set()
        used, since_ms = topics, 0
    return {
        shard
        for shard, offset in offsets.items()
        if now_ms - max(since_ms, offset.commit_ms) >= retention_ms
        and names.get(split_shard_name(shard)[0]) not in used
    }
