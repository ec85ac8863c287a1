"""Life of a topic: creating -> ready -> deleting -> gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stratamq.meta.apply import apply
from stratamq.meta.groups import CommitOffset, CommitOffsets
from stratamq.meta.nodes import LoseNode, RegisterNode
from stratamq.meta.shards import CreateShard, DeleteShard, RemoveShard
from stratamq.meta.state import MetaState
from stratamq.meta.topics import (
    AddPartitions,
    AlterTopicConfig,
    ConfirmTopic,
    CreateTopic,
    DeleteTopic,
    RemoveTopic,
    TopicPhase,
)
from stratamq.model.errors import (
    AlreadyExists,
    InvalidConfig,
    InvalidInput,
    InvalidName,
    NotFound,
    TopicNotFound,
)
from stratamq.model.shard import shard_name
from stratamq.model.topic import TopicConfig
from stratamq.model.types import NodeId, Offset
from tests.meta.support import ME, T1, T2, after, creating, growth, topic, with_nodes, with_topic


def test_a_topic_is_ready_only_when_all_its_shards_are_there() -> None:
    one = topic(partitions=3)
    state = with_nodes(1)
    for command in creating(one):
        state = after(command, state=state)
        assert state.topic(T1).phase is TopicPhase.CREATING
        if len(list(state.shards_of(T1))) < 3:
            with pytest.raises(NotFound):
                apply(state, ConfirmTopic(topic_id=T1))
    assert after(ConfirmTopic(topic_id=T1), state=state).topic(T1).phase is TopicPhase.READY


def test_a_shard_without_a_segment_does_not_count() -> None:
    state = after(CreateTopic(topic=topic(), creator=ME), CreateShard(topic_id=T1, partition=0))
    with pytest.raises(NotFound):
        apply(state, ConfirmTopic(topic_id=T1))


@pytest.mark.parametrize(
    "state", [with_topic(), after(CreateTopic(topic=topic(), creator=ME))], ids=["ready", "making"]
)
def test_a_name_is_taken_from_the_first_step_on(state: MetaState) -> None:
    with pytest.raises(AlreadyExists):
        apply(state, CreateTopic(topic=topic(topic_id=T2), creator=ME))


def test_a_name_is_taken_until_the_data_is_gone() -> None:
    state = after(DeleteTopic(topic_id=T1), state=with_topic())
    again = CreateTopic(topic=topic(topic_id=T2), creator=ME)
    with pytest.raises(AlreadyExists, match="being deleted"):
        apply(state, again)
    assert after(RemoveTopic(topic_id=T1), again, state=state).topic(T2).topic.name == "orders"


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")])
def test_names_that_only_differ_in_dots_and_underscores_collide(first: str, second: str) -> None:
    state = after(CreateTopic(topic=topic(first), creator=ME))
    with pytest.raises(InvalidName, match="collides"):
        apply(state, CreateTopic(topic=topic(second, T2), creator=ME))


def test_bad_topics_are_refused() -> None:
    state = with_topic()
    for bad, error in [
        (topic("a b", T2), InvalidName),
        (topic("fine", T2, partitions=0), InvalidConfig),
        (replace(topic("fine", T2), replicas=0), InvalidConfig),
        (topic("fine", T1), AlreadyExists),
    ]:
        with pytest.raises(error):
            apply(state, CreateTopic(topic=bad, creator=ME))


def test_removal_takes_everything_of_the_topic_and_nothing_else() -> None:
    state = with_topic(topic(partitions=2))
    other = topic("other", T2)
    state = after(*creating(other), ConfirmTopic(topic_id=T2), state=state)
    offsets = (
        CommitOffset(shard=shard_name(T1, 1), offset=Offset(7)),
        CommitOffset(shard=shard_name(T2, 0), offset=Offset(8)),
    )
    state = after(CommitOffsets(group="g", offsets=offsets), state=state)
    state = after(DeleteTopic(topic_id=T1), RemoveTopic(topic_id=T1), state=state)
    assert set(state.topics) == {T2}
    assert set(state.shards) == set(state.segments) == {shard_name(T2, 0)}
    assert set(state.groups["g"]) == {shard_name(T2, 0)}
    assert state.topic_like("orders") is None
    assert state.load(ME).leaders == 1


def test_a_topic_in_use_is_not_removed() -> None:
    with pytest.raises(AlreadyExists):
        apply(with_topic(), RemoveTopic(topic_id=T1))


def test_nothing_can_be_done_to_a_topic_that_is_being_deleted() -> None:
    state = after(DeleteTopic(topic_id=T1), state=with_topic())
    for command in (
        ConfirmTopic(topic_id=T1),
        AddPartitions(topic_id=T1, partitions=2),
        AlterTopicConfig(topic_id=T1, put={"flush": "os"}),
        CreateShard(topic_id=T1, partition=1),
    ):
        with pytest.raises(TopicNotFound):
            apply(state, command)
    assert apply(state, DeleteTopic(topic_id=T1))[1] == (), "marking twice is harmless"


def test_growing_needs_the_shards_first() -> None:
    state = with_topic()
    grow = AddPartitions(topic_id=T1, partitions=3)
    with pytest.raises(NotFound):
        apply(after(*growth(T1, range(1, 2)), state=state), grow)
    state = after(*growth(T1, range(1, 3)), grow, state=state)
    assert state.topic(T1).topic.partitions == 3


@pytest.mark.parametrize("partitions", [0, 1, 2])
def test_a_topic_never_shrinks(partitions: int) -> None:
    with pytest.raises(InvalidConfig):
        apply(with_topic(topic(partitions=2)), AddPartitions(topic_id=T1, partitions=partitions))


def test_shards_have_no_holes() -> None:
    state = with_topic()
    with pytest.raises(InvalidInput):
        apply(state, CreateShard(topic_id=T1, partition=2))
    assert apply(state, CreateShard(topic_id=T1, partition=0))[1] == (), "idempotent by name"


def test_a_growth_is_taken_back_in_two_phases() -> None:
    state = after(*growth(T1, range(1, 3)), state=with_topic())
    first, second, third = (shard_name(T1, partition) for partition in range(3))
    with pytest.raises(AlreadyExists, match="in use"):
        apply(state, DeleteShard(shard=first))
    with pytest.raises(AlreadyExists, match="delete it first"):
        apply(state, RemoveShard(shard=third))
    state = after(DeleteShard(shard=second), DeleteShard(shard=third), state=state)
    assert apply(state, DeleteShard(shard=third))[1] == ()
    with pytest.raises(AlreadyExists, match="not the last"):
        apply(state, RemoveShard(shard=second))
    state = after(RemoveShard(shard=third), RemoveShard(shard=second), state=state)
    assert state.shards == with_topic().shards
    assert state.segments == with_topic().segments
    assert apply(state, RemoveShard(shard=second))[1] == ()


def test_a_growth_that_was_given_up_cannot_come_true_later() -> None:
    """The caller's time was up, its last command is still on the way, and the data is being
    deleted."""
    state = after(*growth(T1, range(1, 2)), state=with_topic())
    state = after(DeleteShard(shard=shard_name(T1, 1)), state=state)
    with pytest.raises(NotFound):
        apply(state, AddPartitions(topic_id=T1, partitions=2))
    with pytest.raises(AlreadyExists, match="being deleted"):
        apply(state, CreateShard(topic_id=T1, partition=1))


def test_configs_change_and_go_back_to_their_defaults() -> None:
    state = with_topic(topic(retention_ms=5))
    state = after(AlterTopicConfig(topic_id=T1, put={"flush": "os"}), state=state)
    assert dict(state.topic(T1).topic.config.given) == {"retention.ms": 5, "flush": "os"}
    state = after(AlterTopicConfig(topic_id=T1, reset=frozenset({"retention.ms"})), state=state)
    assert dict(state.topic(T1).topic.config.given) == {"flush": "os"}
    assert state.topic(T1).topic.config.number("retention.ms") == 168 * 3_600_000


@pytest.mark.parametrize(
    ("put", "reset"),
    [
        ({"storage.type": "EngineMemory"}, ()),
        ({"retention.msec": 1}, ()),
        ({"flush": "sometimes"}, ()),
        ({}, ("flsh",)),
    ],
)
def test_configs_that_cannot_be(put: dict[str, object], reset: tuple[str, ...]) -> None:
    with pytest.raises(InvalidConfig):
        apply(with_topic(), AlterTopicConfig(topic_id=T1, put=put, reset=frozenset(reset)))


def test_fixed_settings_may_be_repeated() -> None:
    same = AlterTopicConfig(topic_id=T1, put={"storage.type": "EngineSegment"})
    state = after(same, state=with_topic())
    assert state.topic(T1).topic.config.storage_type == "EngineSegment"


def test_a_registered_storage_type_is_kept_through_changes() -> None:
    with pytest.raises(InvalidConfig):
        TopicConfig.of({"storage.type": "Mine"})
    mine = replace(topic(), config=TopicConfig.of({"storage.type": "Mine"}, {"Mine"}))
    state = after(AlterTopicConfig(topic_id=T1, put={"flush": "os"}), state=with_topic(mine))
    assert state.topic(T1).topic.config.storage_name == "Mine"


def test_nodes_come_and_go_and_come_back() -> None:
    state = with_nodes(2, 1)
    assert state.live_nodes() == [1, 2]
    state = after(LoseNode(node_id=NodeId(1)), state=state)
    assert state.live_nodes() == [2]
    back = RegisterNode(node_id=NodeId(1), address="n1:1")
    state, events = apply(state, back)
    assert state.live_nodes() == [1, 2]
    assert events
    assert apply(state, back)[1] == (), "a second hello changes nothing"
    with pytest.raises(NotFound):
        apply(state, LoseNode(node_id=NodeId(9)))
