"""The same commands give the same events in every process, and in every order of history."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stratamq.meta.access import AlterQuota, QuotaScope
from stratamq.meta.apply import Command, apply
from stratamq.meta.evolve import Entity, restored
from stratamq.meta.groups import (
    AddPendingOffsets,
    CommitOffset,
    CommitOffsets,
    DeleteGroup,
    EndPendingOffsets,
)
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.state import Event, MetaState
from stratamq.meta.store import row_key
from stratamq.meta.tier.files import CommitFiles, ForgetObjects, TierFile, TierObject
from stratamq.meta.topics import ConfirmTopic, DeleteTopic, RemoveTopic
from stratamq.model.shard import shard_name
from stratamq.model.types import Offset, TimestampMs
from tests.meta.support import ME, T1, T2, after, creating, topic

GROUPS = [f"group-{number}" for number in range(20)]
SHARDS = [shard_name(T1, number) for number in range(5)]


def history() -> list[Command]:
    """Twenty groups with offsets and pending offsets, in an order that is not that of names."""
    offsets = tuple(CommitOffset(shard=shard, offset=Offset(1)) for shard in reversed(SHARDS))
    scopes = [QuotaScope(None, "c"), QuotaScope("", None), QuotaScope("u", ""), QuotaScope("u")]
    file = TierFile(
        shard=SHARDS[0],
        base_offset=Offset(0),
        end_offset=Offset(9),
        log=TierObject("log-key", 1, 1),
        index=TierObject("index-key", 1, 1),
        final=True,
    )
    return [
        RegisterNode(node_id=ME, address="n1:1"),
        *creating(topic(partitions=len(SHARDS))),
        ConfirmTopic(topic_id=T1),
        *creating(topic("other", T2)),
        *(CommitOffsets(group=group, offsets=offsets) for group in reversed(GROUPS)),
        *(AddPendingOffsets(producer_id=7, group=one, offsets=offsets) for one in GROUPS),
        *(AddPendingOffsets(producer_id=8, group=one, offsets=offsets) for one in GROUPS),
        *(AlterQuota(scope=scope, put={"producer_byte_rate": 1.0}) for scope in scopes),
        CommitFiles(shard=SHARDS[0], add=(file,), now_ms=TimestampMs(1)),
    ]


CHANGES: list[Command] = [
    DeleteGroup(group=GROUPS[3]),
    EndPendingOffsets(producer_id=8, commit=True),
    DeleteTopic(topic_id=T1),
    RemoveTopic(topic_id=T1),
    ForgetObjects(object_keys=frozenset({"log-key", "index-key"})),
]


def events_from(state: MetaState) -> list[Event]:
    happened: list[Event] = []
    for command in CHANGES:
        state, events = apply(state, command)
        happened += events
    return happened


def show() -> None:
    """For a process of its own: all events, and the order of the tables."""
    state = after(*history())
    for event in events_from(state):
        print(event)
    print(list(state.quotas), list(state.groups), list(state.shards))


def test_events_do_not_depend_on_the_seed_of_hashes() -> None:
    outputs = [_shown(seed) for seed in ("1", "2")]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) > 300


def _shown(hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from tests.meta.test_order import show; show()"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_events_of_a_state_that_was_read_from_a_store_are_the_same() -> None:
    """A store gives entities back in the order of its rows, not in that of their creation."""
    rows: dict[bytes, Entity] = {}
    state = MetaState()
    for command in history():
        state, events = apply(state, command)
        rows |= {row_key(event.entity): event.entity for event in events}
    again = restored([rows[key] for key in sorted(rows)], state.revision)
    assert again == state
    assert events_from(again) == events_from(state)
