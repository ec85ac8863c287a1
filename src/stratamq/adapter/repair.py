"""What a crash may have left half-done, found in the Meta Service's state. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stratamq.meta.state import MetaState
from stratamq.meta.topics import TopicPhase
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import NodeId, ShardName


class HalfGrown(NamedTuple):
    """A topic with shards that never came into use, the last one first."""

    topic: Topic
    shards: tuple[ShardName, ...]


def unfinished_topics(state: MetaState, node: NodeId) -> Iterator[Topic]:
    """Topics to be removed: marked as deleted, or never confirmed by `node`, which made them.

    `node` must not be at work on them; whoever asks makes sure of that.
    """
    for meta in state.topics.values():
        abandoned = meta.phase is TopicPhase.CREATING and meta.creator == node
        if abandoned or meta.phase is TopicPhase.DELETING:
            yield meta.topic


def half_grown(state: MetaState, topic: Topic) -> HalfGrown | None:
    """Asked for every topic in every round: one look-up unless there is something."""
    if shard_name(topic.topic_id, topic.partitions) not in state.shards:
        return None
    extra = [shard.name for shard in state.shards_of(topic.topic_id)][topic.partitions :]
    return HalfGrown(topic, tuple(reversed(extra)))


def ready_topics(state: MetaState) -> Iterator[Topic]:
    for meta in state.topics.values():
        if meta.phase is TopicPhase.READY:
            yield meta.topic
