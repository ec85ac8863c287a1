"""What commands on topics and nodes change, and when they are refused."""

from __future__ import annotations

from dataclasses import replace

from stratamq.meta.commands import (
    AddPartitions,
    AlterTopicConfig,
    ConfirmTopic,
    CreateTopic,
    DeleteTopic,
    LoseNode,
    RegisterNode,
    RemoveTopic,
)
from stratamq.meta.configs import altered
from stratamq.meta.entities import NodeMeta, TopicMeta, TopicPhase
from stratamq.meta.events import Event, Put, Removed
from stratamq.meta.names import check_topic_name
from stratamq.meta.rules_tier import drop_all
from stratamq.meta.state import MetaState
from stratamq.model.errors import AlreadyExists, InvalidConfig, InvalidName, NotFound, TopicNotFound
from stratamq.model.types import TopicId


def create_topic(state: MetaState, command: CreateTopic) -> list[Event]:
    topic = command.topic
    check_topic_name(topic.name)
    _check_name_is_free(state, topic.name)
    if topic.topic_id in state.topics:
        raise AlreadyExists(f"a topic with id {topic.topic_id} exists")
    if topic.partitions < 1 or topic.replicas < 1:
        raise InvalidConfig(f"{topic.name}: a topic has at least one partition and one replica")
    return [Put(TopicMeta(topic=topic, phase=TopicPhase.CREATING, creator=command.creator))]


def _check_name_is_free(state: MetaState, name: str) -> None:
    other = state.topic_like(name)
    if other is None:
        return
    if other.topic.name != name:
        raise InvalidName(
            f"{name!r} collides with topic {other.topic.name!r}: '.' and '_' count as one"
        )
    if other.phase is TopicPhase.DELETING:
        raise AlreadyExists(f"topic {name!r} is still being deleted")
    raise AlreadyExists(f"topic {name!r} exists")


def confirm_topic(state: MetaState, command: ConfirmTopic) -> list[Event]:
    meta = state.topic(command.topic_id)
    if meta.phase is TopicPhase.READY:
        return []
    if meta.phase is TopicPhase.DELETING:
        raise TopicNotFound(f"topic {meta.topic.name!r} is being deleted")
    _check_shards(state, meta, meta.topic.partitions)
    return [Put(replace(meta, phase=TopicPhase.READY))]


def _check_shards(state: MetaState, meta: TopicMeta, partitions: int) -> None:
    """Users may only see partitions that can be written to."""
    whole = [
        shard
        for shard in state.shards_of(meta.key)
        if state.segments_of(shard.name) and not shard.deleting
    ]
    if len(whole) < partitions:
        raise NotFound(f"topic {meta.topic.name!r} has {len(whole)} of its {partitions} shards")


def delete_topic(state: MetaState, command: DeleteTopic) -> list[Event]:
    meta = state.topic(command.topic_id)
    if meta.phase is TopicPhase.DELETING:
        return []
    return [Put(replace(meta, phase=TopicPhase.DELETING))]


def remove_topic(state: MetaState, command: RemoveTopic) -> list[Event]:
    meta = state.topic(command.topic_id)
    if meta.phase is not TopicPhase.DELETING:
        raise AlreadyExists(f"topic {meta.topic.name!r} is in use: delete it first")
    shards = list(state.shards_of(meta.key))
    events: list[Event] = []
    for shard in shards:
        events += [Removed(segment) for segment in state.segments_of(shard.name)]
        events += [*drop_all(state, shard), Removed(shard)]
    names = {shard.name for shard in shards}
    for offsets in state.groups.values():
        events += [Removed(offsets[shard]) for shard in sorted(names.intersection(offsets))]
    for pending in state.pending.values():
        events += [Removed(pending[key]) for key in sorted(pending) if key.shard in names]
    return [*events, Removed(meta)]


def add_partitions(state: MetaState, command: AddPartitions) -> list[Event]:
    meta = ready_topic(state, command.topic_id)
    if command.partitions <= meta.topic.partitions:
        raise InvalidConfig(
            f"topic {meta.topic.name!r} has {meta.topic.partitions} partitions and can only grow"
        )
    _check_shards(state, meta, command.partitions)
    return [Put(replace(meta, topic=replace(meta.topic, partitions=command.partitions)))]


def alter_topic_config(state: MetaState, command: AlterTopicConfig) -> list[Event]:
    meta = ready_topic(state, command.topic_id)
    config = altered(meta.topic.config, command.put, command.reset)
    if config == meta.topic.config:
        return []
    return [Put(replace(meta, topic=replace(meta.topic, config=config)))]


def ready_topic(state: MetaState, topic_id: TopicId) -> TopicMeta:
    meta = state.topic(topic_id)
    if meta.phase is not TopicPhase.READY:
        raise TopicNotFound(f"topic {meta.topic.name!r} is {meta.phase}")
    return meta


def register_node(state: MetaState, command: RegisterNode) -> list[Event]:
    node = NodeMeta(node_id=command.node_id, address=command.address)
    return [] if state.nodes.get(command.node_id) == node else [Put(node)]


def lose_node(state: MetaState, command: LoseNode) -> list[Event]:
    node = state.nodes.get(command.node_id)
    if node is None:
        raise NotFound(f"no node {command.node_id}")
    return [Put(replace(node, live=False))] if node.live else []
