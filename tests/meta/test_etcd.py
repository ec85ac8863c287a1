"""etcd under the Meta Service: fences, writes that are cut short, elections, lost members. All with
real servers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from stratamq.meta.apply import apply
from stratamq.meta.etcd.api import EtcdApi, EtcdUnavailable, endpoints_of
from stratamq.meta.etcd.election import Election
from stratamq.meta.etcd.store import EtcdMetaStore, NotElected
from stratamq.meta.state import Event, MetaState, Put
from stratamq.meta.topics import ConfirmTopic
from stratamq.model.errors import InvalidConfig
from tests.meta.support import T1, creating, topic, with_nodes
from tests.meta.test_stores import elected
from tests.peers.etcd import EtcdCluster, running_etcd
from tests.waiting import until

pytestmark = pytest.mark.needs("etcd")

_prefixes = count()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster.url


@pytest.fixture
def prefix() -> bytes:
    return b"test-%d/" % next(_prefixes)


@pytest.fixture
def api(url: str, prefix: bytes) -> Iterator[EtcdApi]:
    api = EtcdApi(url, prefix)
    yield api
    api.close()


def large_write() -> tuple[MetaState, list[Event]]:
    """More than a transaction takes."""
    state = with_nodes(1)
    events: list[Event] = [Put(one) for one in state.nodes.values()]
    for command in [*creating(topic(partitions=200)), ConfirmTopic(topic_id=T1)]:
        state, more = apply(state, command)
        events += more
    return state, events


# -- fences ----------------------------------------------------------------------------------------


def test_a_node_that_is_not_elected_any_more_changes_nothing(api: EtcdApi) -> None:
    old = EtcdMetaStore(api, elected(api))
    before = old.open()
    api.change([], [api.delete(b"!elected")])
    new = EtcdMetaStore(api, elected(api))
    new.open()
    state, events = large_write()
    with pytest.raises(NotElected):
        old.write(events, state.revision)
    with pytest.raises(NotElected):
        old.write(events[:1], 1)
    with pytest.raises(NotElected):
        old.open()
    assert new.open() == before


# -- writes that are cut short ---------------------------------------------------------------------


class Cut(Exception):
    """The process ends here."""


class FailingApi(EtcdApi):
    """Cuts a write off at its n-th transaction: before it, or after it and before its answer."""

    cut_at = -1
    carried_out = False
    transactions = 0

    def change(self, compares: Sequence[Any], changes: Sequence[Any]) -> bool:
        self.transactions += 1
        if self.transactions == self.cut_at and not self.carried_out:
            raise Cut
        done = super().change(compares, changes)
        if self.transactions == self.cut_at:
            raise Cut
        return done


def transactions_of(url: str) -> int:
    """How many a large write takes."""
    api = FailingApi(url, b"counted-%d/" % next(_prefixes))
    store = EtcdMetaStore(api, elected(api))
    store.open()
    api.transactions = 0
    state, events = large_write()
    store.write(events, state.revision)
    api.close()
    return api.transactions


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_large_write_is_whole_wherever_it_is_cut_off(url: str, carried_out: bool) -> None:
    steps = transactions_of(url)
    assert steps > 8
    state, events = large_write()
    outcomes = []
    for cut_at in range(1, steps + 1):
        api = FailingApi(url, b"cut-%d/" % next(_prefixes))
        fence = elected(api)
        store = EtcdMetaStore(api, fence)
        before = store.open()
        api.transactions, api.cut_at, api.carried_out = 0, cut_at, carried_out
        with pytest.raises(Cut):
            store.write(events, state.revision)
        api.cut_at = -1
        found = EtcdMetaStore(api, fence).open()
        assert found in (before, state), f"cut off at {cut_at}"
        assert EtcdMetaStore(api, fence).open() == found
        assert not api.page(b"!part", b"!q", 10, 0)[0]
        outcomes.append(found == state)
        api.close()
    assert outcomes == sorted(outcomes), "once it counts, it counts"
    assert {True, False} == set(outcomes)


# -- elections -------------------------------------------------------------------------------------


async def test_one_is_elected_and_another_when_it_resigns(url: str, prefix: bytes) -> None:
    first, second = Election(url, prefix, "one:1"), Election(url, prefix, "two:2")
    assert await first.leader() is None
    fence = await first.campaign()
    waiting = asyncio.create_task(second.campaign())
    assert await second.leader() == "one:1"
    assert not waiting.done()
    await first.resign()
    later = await waiting
    assert later.revision > fence.revision
    assert await first.leader() == "two:2"
    assert not second.lost.is_set()
    await first.close()
    await second.close()


async def test_a_node_that_stands_still_is_replaced_and_fenced(
    url: str, prefix: bytes, api: EtcdApi
) -> None:
    """As after SIGSTOP: its lease runs out while it does nothing, and it goes on later."""
    first, second = Election(url, prefix, "one:1", lease_s=2), Election(url, prefix, "two:2")
    store = EtcdMetaStore(api, await first.campaign())
    store.open()
    stopped = first._keeping
    assert stopped is not None
    stopped.cancel()
    fence = await second.campaign()
    with pytest.raises(NotElected):
        store.write([], 1)
    EtcdMetaStore(api, fence).open()
    await first.close()
    assert await second.leader() == "two:2"
    await second.close()


async def test_an_elected_node_that_cannot_reach_etcd_knows_that_it_is_lost(
    tmp_path: Path,
) -> None:
    with running_etcd(tmp_path) as cluster:
        election = Election(cluster.url, b"e/", "one:1", lease_s=1)
        await election.campaign()
        cluster.members[0].send(signal.SIGSTOP)
        async with asyncio.timeout(60):
            await election.lost.wait()
        cluster.members[0].send(signal.SIGCONT)
        await election.close()


# -- a cluster that loses a member -----------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Iterator[EtcdCluster]:
    with running_etcd(tmp_path, 3) as cluster:
        yield cluster


async def test_writes_go_on_without_one_of_three(three: EtcdCluster) -> None:
    """Each member dies in turn, the leader among them. What was written stays; a write without an
    answer is looked for before it is made again."""
    election = Election(three.url, b"e/", "one:1", lease_s=10)
    api = EtcdApi(three.url, b"e/")
    store = EtcdMetaStore(api, await election.campaign())
    state = await asyncio.to_thread(store.open)
    revisions = iter(range(state.revision + 1, 100))
    for member in three.members:
        member.kill()
        for revision in islice(revisions, 3):
            await until(partial(_written, store, revision), "a write is accepted")
        member.start()
    assert (await asyncio.to_thread(store.open)).revision == state.revision + 9
    assert not election.lost.is_set()
    await election.close()
    api.close()


async def _written(store: EtcdMetaStore, revision: int) -> bool:
    try:
        await asyncio.to_thread(store.write, [], revision)
    except EtcdUnavailable:
        return False
    return True


# -- addresses -------------------------------------------------------------------------------------


def test_addresses() -> None:
    assert endpoints_of("etcd://a:1,b") == (("a", 1), ("b", 2379))
    for wrong in ("http://a:1", "etcd://", "etcd://a:x", "etcd://:1"):
        with pytest.raises(InvalidConfig):
            endpoints_of(wrong)
