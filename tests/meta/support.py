"""Small makers for meta tests: a state with what a test needs, and nothing else."""

from __future__ import annotations

from stratamq.meta.apply import Command, apply
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.segments import CreateSegment
from stratamq.meta.shards import CreateShard
from stratamq.meta.state import MetaState
from stratamq.meta.topics import ConfirmTopic, CreateTopic
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic, TopicConfig
from stratamq.model.types import NodeId, TopicId

ME = NodeId(1)
T1 = TopicId("1" * 32)
T2 = TopicId("2" * 32)


def topic(
    name: str = "orders", topic_id: TopicId = T1, partitions: int = 1, **config: object
) -> Topic:
    given = {key.replace("_", "."): value for key, value in config.items()}
    return Topic(topic_id=topic_id, name=name, partitions=partitions, config=TopicConfig.of(given))


def creating(one: Topic) -> list[Command]:
    """Everything between the reserved name and the topic users see, the last step excepted."""
    commands: list[Command] = [CreateTopic(topic=one, creator=ME)]
    return commands + growth(one.topic_id, range(one.partitions))


def growth(topic_id: TopicId, partitions: range) -> list[Command]:
    commands: list[Command] = []
    for partition in partitions:
        commands.append(CreateShard(topic_id=topic_id, partition=partition))
        shard = shard_name(topic_id, partition)
        commands.append(CreateSegment(shard=shard, seq=0, replicas=(ME,), leader=ME))
    return commands


def after(*commands: Command, state: MetaState | None = None) -> MetaState:
    state = state if state is not None else MetaState()
    for command in commands:
        state, _ = apply(state, command)
    return state


def with_nodes(*nodes: int) -> MetaState:
    joined = [RegisterNode(node_id=NodeId(node), address=f"n{node}:1") for node in nodes]
    return after(*joined)


def with_topic(one: Topic | None = None) -> MetaState:
    """One node, one topic that is ready."""
    one = one or topic()
    return after(*creating(one), ConfirmTopic(topic_id=one.topic_id), state=with_nodes(1))
