"""What the Meta Service may expect of any store: RocksDB in the node, and a real etcd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from stratamq.meta.apply import Command, apply
from stratamq.meta.etcd.api import EtcdApi
from stratamq.meta.etcd.election import ELECTION_KEY
from stratamq.meta.etcd.store import EtcdMetaStore, Fence
from stratamq.meta.groups import CommitOffset, CommitOffsets
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.state import Event, MetaState, Put
from stratamq.meta.store import MetaStore, RocksMetaStore
from stratamq.meta.topics import ConfirmTopic, DeleteTopic, RemoveTopic
from stratamq.model.errors import Closed
from stratamq.model.shard import shard_name
from stratamq.model.types import Offset
from tests.meta.support import ME, T1, creating, topic, with_topic
from tests.peers.etcd import running_etcd

Reopened = Callable[[], MetaStore]
"""The same store, opened by another object, as a node that is started again has it."""

_prefixes = count()


@pytest.fixture(scope="module")
def etcd_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster.url


def elected(api: EtcdApi) -> Fence:
    """A fence, without an election around it."""
    api.change([], [api.put(ELECTION_KEY, b"here")])
    [(_, _)], revision = api.page(ELECTION_KEY, ELECTION_KEY + b"\x00", 1, 0)
    return Fence(ELECTION_KEY, revision)


@pytest.fixture(params=["rocksdb", pytest.param("etcd", marks=pytest.mark.needs("etcd"))])
def reopened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopened]:
    if request.param == "rocksdb":
        opened: list[MetaStore] = []

        def rocksdb() -> MetaStore:
            for store in opened:
                store.close()
            opened.append(RocksMetaStore(tmp_path))
            return opened[-1]

        yield rocksdb
        opened[-1].close()
    else:
        api = EtcdApi(request.getfixturevalue("etcd_url"), b"suite-%d/" % next(_prefixes))
        fence = elected(api)
        yield lambda: EtcdMetaStore(api, fence)
        api.close()


def write(store: MetaStore, state: MetaState, *commands: Command) -> MetaState:
    for command in commands:
        state, events = apply(state, command)
        store.write(events, state.revision)
    return state


def write_at_once(store: MetaStore, state: MetaState, *commands: Command) -> MetaState:
    events: list[Event] = []
    for command in commands:
        state, more = apply(state, command)
        events += more
    store.write(events, state.revision)
    return state


def test_everything_is_there_after_reopening(reopened: Reopened) -> None:
    store = reopened()
    assert store.open() == MetaState()
    state = with_topic(topic(partitions=3, retention_ms=5))
    store.write([Put(one) for one in [*state.nodes.values(), *state.topics.values()]], 1)
    store.write([Put(one) for one in state.shards.values()], 2)
    store.write([Put(one[0]) for one in state.segments.values()], state.revision)
    group = CommitOffsets(
        group="g\x00/ü", offsets=(CommitOffset(shard=shard_name(T1, 2), offset=Offset(9)),)
    )
    state = write(store, state, group)
    assert store.open() == state
    store.close()
    assert reopened().open() == state


def test_what_was_removed_stays_removed(reopened: Reopened) -> None:
    store = reopened()
    state = write(store, store.open(), *creating(topic())[:2])
    assert store.open() == state
    state = write(store, state, DeleteTopic(topic_id=T1), RemoveTopic(topic_id=T1))
    reread = reopened().open()
    assert (dict(reread.topics), dict(reread.shards)) == ({}, {})
    assert reread.revision == state.revision == 4


def test_a_write_of_any_size(reopened: Reopened) -> None:
    """A topic of 1,000 partitions comes with one write, in which its row changes twice, and goes
    with one."""
    store = reopened()
    state = write(store, store.open(), RegisterNode(node_id=ME, address="here:1"))
    creation = [*creating(topic(partitions=1_000)), ConfirmTopic(topic_id=T1)]
    state = write_at_once(store, state, *creation)
    assert len(state.segments) == 1_000
    store = reopened()
    assert store.open() == state
    state = write_at_once(store, state, DeleteTopic(topic_id=T1), RemoveTopic(topic_id=T1))
    assert not state.segments
    assert reopened().open() == state


def test_a_closed_store_says_so(reopened: Reopened) -> None:
    store = reopened()
    with pytest.raises(Closed):
        store.write([], 0)
    store.open()
    store.close()
    with pytest.raises(Closed):
        store.write([], 0)
