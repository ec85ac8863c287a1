"""Any commands in any order: refused by one of our errors or applied, and the laws hold."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stratamq.meta import access as a
from stratamq.meta import configs as rc
from stratamq.meta import transactions as x
from stratamq.meta.apply import RULES, Command, apply
from stratamq.meta.evolve import entities, restored
from stratamq.meta.groups import (
    AddPendingOffsets,
    CommitOffset,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    EndPendingOffsets,
    SaveGroup,
)
from stratamq.meta.nodes import LoseNode, RegisterNode
from stratamq.meta.segments import (
    ChangeSegment,
    ConfirmSealed,
    CreateSegment,
    RemoveSegment,
    SealSegment,
    UpdateIsr,
)
from stratamq.meta.shards import CreateShard, DeleteShard, RemoveShard
from stratamq.meta.state import MetaState, NodeLoad, collision_key
from stratamq.meta.store import (
    RocksMetaStore,
    entity_of,
    make_store,
    read_state,
    row_key,
    row_value,
    write_rows,
)
from stratamq.meta.tier import files as tier
from stratamq.meta.topics import (
    AddPartitions,
    AlterTopicConfig,
    ConfirmTopic,
    CreateTopic,
    DeleteTopic,
    RemoveTopic,
    TopicPhase,
)
from stratamq.model.access import AclRule, Operation, PatternType, Permission, ResourceKind
from stratamq.model.errors import StrataError
from stratamq.model.shard import SegmentEvent, has_leader, shard_name
from stratamq.model.transaction import TransactionState
from stratamq.model.types import NodeId, Offset, TimestampMs, TopicId
from tests.meta.support import after, creating, topic, with_nodes

ids = st.sampled_from([TopicId(digit * 32) for digit in "abc"])
names = st.sampled_from(["x", "x.y", "x_y", "z", "bad name"])
nodes = st.integers(1, 3).map(NodeId)
numbers = st.integers(0, 3)
shards = st.builds(shard_name, ids, numbers)
replicas = st.lists(nodes, min_size=1, max_size=3).map(tuple)
groups = st.sampled_from(["g", "ü/h", ""])
offsets = st.integers(-1, 5).map(Offset)
texts = st.sampled_from(["", "text"])
entries = st.lists(
    st.builds(CommitOffset, shard=shards, offset=offsets, metadata=texts), max_size=3
).map(tuple)
segment = {"shard": shards, "seq": numbers}
at_epoch = {**segment, "epoch": numbers}

users = st.sampled_from(["", "alice", 'b"]\x00ö'])
limits = st.sampled_from([*a.QUOTAS, "no such"])
acls = st.builds(
    AclRule,
    kind=st.sampled_from(ResourceKind),
    pattern=st.sampled_from(PatternType),
    name=users,
    principal=users.map("User:{}".format),
    host=st.just("*"),
    operation=st.sampled_from(Operation),
    permission=st.sampled_from(Permission),
)
credentials = st.builds(
    a.Credential,
    user=users,
    mechanism=st.sampled_from(a.Mechanism),
    iterations=st.sampled_from([1, 4096]),
    salt=st.sampled_from(["", "ab" * 16]),
    stored_key=st.just("cd"),
    server_key=st.just("ef"),
)

transactional_ids = st.sampled_from(["", "x", "ü/y"])
transactions = st.builds(
    x.TransactionMeta,
    transactional_id=transactional_ids,
    producer_id=numbers,
    producer_epoch=st.integers(-1, 3),
    timeout_ms=st.just(1),
    state=st.sampled_from(TransactionState),
    shards=st.frozensets(shards),
    groups=st.frozensets(groups),
)

objects = st.builds(tier.TierObject, st.sampled_from(["k", "ü/k", "k2"]), st.just(1), st.just(2))
files = st.builds(
    tier.TierFile,
    shard=shards,
    base_offset=offsets,
    end_offset=st.integers(-1, 9).map(Offset),
    final=st.booleans(),
    parquet=st.none() | objects,
    parquet_end=st.none() | st.just(tier.ParquetEnd(1, 2, 3, 4)),
    log=st.none() | objects,
    index=st.none() | objects,
)


@st.composite
def file_commits(draw: st.DrawFn) -> tier.CommitFiles:
    shard = draw(shards)
    add = draw(st.lists(files, max_size=2))
    own = [replace(file, shard=shard) if draw(st.integers(0, 9)) else file for file in add]
    bases = tuple(draw(st.lists(offsets, max_size=2)))
    return tier.CommitFiles(shard=shard, add=tuple(own), replace=bases, now_ms=TimestampMs(7))


STRATEGIES: dict[type, st.SearchStrategy[Command]] = {
    CreateTopic: st.builds(
        CreateTopic, topic=st.builds(topic, names, ids, st.integers(0, 3)), creator=nodes
    ),
    ConfirmTopic: st.builds(ConfirmTopic, topic_id=ids),
    DeleteTopic: st.builds(DeleteTopic, topic_id=ids),
    RemoveTopic: st.builds(RemoveTopic, topic_id=ids),
    AddPartitions: st.builds(AddPartitions, topic_id=ids, partitions=st.integers(0, 4)),
    AlterTopicConfig: st.builds(
        AlterTopicConfig,
        topic_id=ids,
        put=st.sampled_from([{}, {"flush": "os"}, {"flush": "x"}, {"flsh": "os"}]),
        reset=st.sampled_from([frozenset(), frozenset({"flush"}), frozenset({"?"})]),
    ),
    CreateShard: st.builds(CreateShard, topic_id=ids, partition=numbers),
    DeleteShard: st.builds(DeleteShard, shard=shards),
    RemoveShard: st.builds(RemoveShard, shard=shards),
    CreateSegment: st.builds(CreateSegment, **segment, replicas=replicas, leader=nodes),
    SealSegment: st.builds(SealSegment, **at_epoch, end_offset=offsets),
    ConfirmSealed: st.builds(
        ConfirmSealed, **at_epoch, size_bytes=st.just(1), checksum=st.just("x")
    ),
    ChangeSegment: st.builds(ChangeSegment, **at_epoch, event=st.sampled_from(SegmentEvent)),
    RemoveSegment: st.builds(RemoveSegment, **segment),
    UpdateIsr: st.builds(UpdateIsr, **at_epoch, isr=replicas, leader=st.none() | nodes),
    tier.CommitFiles: file_commits(),
    tier.DropFiles: st.builds(
        tier.DropFiles, shard=shards, below=offsets, now_ms=st.just(TimestampMs(8))
    ),
    tier.ForgetObjects: st.builds(
        tier.ForgetObjects, object_keys=st.lists(objects.map(lambda one: one.key)).map(tuple)
    ),
    RegisterNode: st.builds(RegisterNode, node_id=nodes, address=st.just("n")),
    LoseNode: st.builds(LoseNode, node_id=nodes),
    CommitOffsets: st.builds(CommitOffsets, group=groups, offsets=entries),
    DeleteOffsets: st.builds(DeleteOffsets, group=groups, shards=st.frozensets(shards)),
    SaveGroup: st.builds(
        SaveGroup, group=groups, kind=st.just("classic"), epoch=numbers, document=st.just("{}")
    ),
    DeleteGroup: st.builds(DeleteGroup, group=groups),
    AddPendingOffsets: st.builds(
        AddPendingOffsets, producer_id=numbers, group=groups, offsets=entries
    ),
    EndPendingOffsets: st.builds(EndPendingOffsets, producer_id=numbers, commit=st.booleans()),
    x.TakeProducerIds: st.builds(x.TakeProducerIds, first_id=numbers, count=numbers),
    x.SaveTransaction: st.builds(x.SaveTransaction, transaction=transactions),
    x.DeleteTransaction: st.builds(x.DeleteTransaction, transactional_id=transactional_ids),
    a.CreateAcl: st.builds(a.CreateAcl, rule=acls),
    a.DeleteAcl: st.builds(a.DeleteAcl, rule=acls),
    a.SaveCredential: st.builds(a.SaveCredential, credential=credentials),
    a.DeleteCredential: st.builds(
        a.DeleteCredential, user=users, mechanism=st.sampled_from(a.Mechanism)
    ),
    a.AlterQuota: st.builds(
        a.AlterQuota,
        scope=st.builds(a.QuotaScope, st.none() | users, st.none() | users),
        put=st.dictionaries(limits, st.sampled_from([-1.0, 0.5, 1e9]), max_size=2),
        remove=st.frozensets(limits),
    ),
    rc.AlterResourceConfig: st.builds(
        rc.AlterResourceConfig,
        scope=st.builds(rc.ConfigScope, st.sampled_from(rc.ConfigKind), users),
        put=st.dictionaries(limits, st.sampled_from([1, "ö", False]), max_size=2),
        reset=st.frozensets(limits),
    ),
}


def furnished() -> MetaState:
    """A state in which most commands find something to do."""
    one = topic("x", TopicId("a" * 32), 2)
    ready = ConfirmTopic(topic_id=one.topic_id)
    ahead = CreateSegment(
        shard=shard_name(one.topic_id, 0), seq=1, replicas=(NodeId(1), NodeId(2)), leader=NodeId(2)
    )
    return after(*creating(one), ready, ahead, state=with_nodes(1, 2, 3))


histories = st.lists(st.one_of(*STRATEGIES.values()), max_size=60)


def test_every_command_has_a_rule_and_is_tried_here() -> None:
    assert set(STRATEGIES) == set(RULES) == set(Command.__args__)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([MetaState(), furnished()]), histories)
def test_the_laws_hold_whatever_is_asked(state: MetaState, history: list[Command]) -> None:
    seen = [(state, repr(state))]
    for command in [RegisterNode(node_id=NodeId(1), address="n"), *history]:
        with contextlib.suppress(StrataError):
            state, _ = apply(state, command)
            check_laws(state)
            seen.append((state, repr(state)))
    assert all(repr(state) == text for state, text in seen), "a state was changed in place"
    rows = {row_key(entity): row_value(entity) for entity in entities(state)}
    assert len(rows) == sum(1 for _ in entities(state)), "two entities share a row"
    reread = restored((entity_of(*row) for row in rows.items()), state.revision)
    assert reread == state, "what the store holds is what was there"


def check_laws(state: MetaState) -> None:
    assert len({collision_key(meta.topic.name) for meta in state.topics.values()}) == len(
        state.topics
    )
    assert all(state.topic_like(meta.topic.name) == meta for meta in state.topics.values())
    for topic_id, meta in state.topics.items():
        there = [shard.partition for shard in state.shards_of(topic_id)]
        assert there == list(range(len(there)))
        if meta.phase is TopicPhase.READY:
            assert len(there) >= meta.topic.partitions
            used = [state.shards[shard_name(topic_id, n)] for n in range(meta.topic.partitions)]
            assert not any(shard.deleting for shard in used)
    assert {shard.topic_id for shard in state.shards.values()} <= set(state.topics)
    assert len(state.shards) == sum(len(list(state.shards_of(one))) for one in state.topics)
    assert set(state.segments) <= set(state.shards)
    for offsets_of in state.groups.values():
        assert offsets_of
        assert set(offsets_of) <= set(state.shards)
    for waiting in state.pending.values():
        assert waiting
        assert {key.shard for key in waiting} <= set(state.shards)
    assert set(state.files) <= set(state.shards)
    for several in state.files.values():
        assert several
        for left, right in pairwise(several):
            assert left.base_offset < left.end_offset <= right.base_offset
    check_segments(state)


def check_segments(state: MetaState) -> None:
    kept = [one for some in state.groups.values() for one in some.values()]
    waiting = [one for some in state.pending.values() for one in some.values()]
    sizes = [one.size_bytes for one in kept] + [one.size_bytes for one in waiting]
    assert state.offset_bytes == sum(sizes)
    begun = [one.shards for one in state.transactions.values()]
    assert state.transaction_shards == sum(map(len, begun))
    led: Counter[NodeId] = Counter()
    held: Counter[NodeId] = Counter()
    for several in state.segments.values():
        assert [one.seq for one in several] == list(
            range(several[0].seq, several[0].seq + len(several))
        )
        for left, right in pairwise(several):
            assert right.start_offset == left.end_offset, "no hole, no overlap, no guess"
        for one in several:
            assert set(one.isr) <= set(one.replicas)
            assert one.leader is None or one.leader in one.isr
            assert has_leader(one.state) or one.leader is None or one.start_offset == -1
            if has_leader(one.state):
                held.update(one.replicas)
                led.update([one.leader] if one.leader is not None else [])
    assert state.loads == {node: NodeLoad(led[node], held[node]) for node in held}


def test_a_saved_state_is_read_back_whole(tmp_path: Path) -> None:
    state = furnished()
    write_rows(tmp_path / "rows", state)
    make_store(tmp_path / "rows", tmp_path / "meta")
    assert read_state(tmp_path / "meta") == state
    store = RocksMetaStore(tmp_path / "meta")
    assert store.open() == state
    store.close()
