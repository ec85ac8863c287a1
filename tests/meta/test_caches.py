"""The caches follow the service, and a lost push does not stay lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.meta.client import EVENTS_AT_ONCE, MetaClient, Watch
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.rpc.client import MetaConnection
from stratamq.meta.rpc.server import MetaServer
from stratamq.meta.segments import CreateSegment, SealSegment
from stratamq.meta.service import MetaService
from stratamq.meta.shards import StorageCacheManager
from stratamq.meta.store import RocksMetaStore
from stratamq.meta.topics import (
    BrokerCacheManager,
    ConfirmTopic,
    DeleteTopic,
    RemoveTopic,
    TopicPhase,
)
from stratamq.model.errors import TimedOut, TopicNotFound
from stratamq.model.shard import shard_name
from stratamq.model.types import Offset
from tests.meta.support import ME, T1, T2, creating, topic
from tests.waiting import let_run

SHARD = shard_name(T1, 0)
FAST = 0.02


class LossyService(MetaService):
    """A service whose pushes can be dropped on the way."""

    dropping = False

    def watch(self) -> Watch:
        watch = super().watch()
        push = watch.push
        watch.push = lambda update: self.dropping or push(update)  # type: ignore[assignment]
        return watch


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[LossyService]:
    service = LossyService(RocksMetaStore(tmp_path))
    await service.open()
    await service.submit(RegisterNode(node_id=ME, address="me:1"))
    yield service
    await service.close()


@pytest.fixture(params=["in this process", "over gRPC"])
async def client(
    request: pytest.FixtureRequest, service: LossyService
) -> AsyncIterator[MetaClient]:
    if request.param == "in this process":
        yield service
        return
    server = MetaServer(service)
    connection = MetaConnection(f"127.0.0.1:{await server.start('127.0.0.1', 0)}")
    yield connection  # type: ignore[misc]
    await connection.close()
    await server.stop()


@pytest.fixture
async def broker(client: MetaClient) -> AsyncIterator[BrokerCacheManager]:
    cache = BrokerCacheManager(client, reconcile_s=60)
    await cache.start()
    yield cache
    await cache.stop()


@pytest.fixture
async def storage(client: MetaClient) -> AsyncIterator[StorageCacheManager]:
    cache = StorageCacheManager(client, reconcile_s=60)
    await cache.start()
    yield cache
    await cache.stop()


async def make_topic(service: MetaService) -> None:
    await service.submit(*creating(topic()))
    await service.submit(ConfirmTopic(topic_id=T1))


async def test_users_see_topics_that_are_ready_and_no_others(
    service: MetaService, broker: BrokerCacheManager
) -> None:
    await service.submit(*creating(topic()))
    meta = await broker.wait_for_topic("orders", 1)
    assert meta.phase is TopicPhase.CREATING
    with pytest.raises(TopicNotFound):
        broker.topic("orders")
    await service.submit(ConfirmTopic(topic_id=T1))
    await broker.wait_for_topic("orders", 1, until=lambda meta: meta.phase is TopicPhase.READY)
    assert broker.topic("orders") == broker.topic_by_id(T1) == broker.topics()[0]
    await service.submit(DeleteTopic(topic_id=T1))
    await broker.wait_for_topic("orders", 1, until=lambda meta: meta.phase is TopicPhase.DELETING)
    assert broker.topics() == []
    assert len(broker.known()) == 1
    await service.submit(RemoveTopic(topic_id=T1))
    await broker.wait_until_gone("orders", T1, 1)
    with pytest.raises(TopicNotFound):
        broker.topic_by_id(T1)


async def test_waiters_wait_for_what_comes_later(
    service: MetaService, broker: BrokerCacheManager, storage: StorageCacheManager
) -> None:
    waiting = asyncio.gather(broker.wait_for_topic("orders", 5), storage.wait_for_shard(SHARD, 5))
    await let_run(0.01)
    assert not waiting.done()
    await make_topic(service)
    meta, entry = await waiting
    assert (meta.key, entry.shard.name) == (T1, SHARD)
    assert broker._waiters == {}, "nothing is left of a wait"


async def test_waiting_has_an_end(broker: BrokerCacheManager, storage: StorageCacheManager) -> None:
    with pytest.raises(TimedOut, match="'nope'"):
        await broker.wait_for_topic("nope", FAST)
    with pytest.raises(TimedOut, match="nope_0"):
        await storage.wait_for_shard(shard_name("nope", 0), FAST)  # type: ignore[arg-type]
    assert broker._waiters == storage._waiters == {}


async def test_a_shard_counts_when_it_can_be_written_to(
    service: MetaService, storage: StorageCacheManager
) -> None:
    await service.submit(*creating(topic())[:2])
    with pytest.raises(TimedOut):
        await storage.wait_for_shard(SHARD, FAST)
    assert storage.shard(SHARD) is not None
    await service.submit(CreateSegment(shard=SHARD, seq=0, replicas=(ME,), leader=ME))
    entry = await storage.wait_for_shard(SHARD, 1)
    assert entry.active is not None
    assert entry.active.leader == ME


async def test_the_active_segment_is_the_one_that_has_begun(
    service: MetaService, storage: StorageCacheManager
) -> None:
    await make_topic(service)
    ahead = CreateSegment(shard=SHARD, seq=1, replicas=(ME,), leader=ME)
    await storage.wait_for_revision(await service.submit(ahead), 1)
    entry = await storage.wait_for_shard(SHARD, 1)
    assert list(entry.segments) == [0, 1]
    assert entry.active is not None
    assert entry.active.seq == 0
    revision = await service.submit(SealSegment(shard=SHARD, seq=0, epoch=0, end_offset=Offset(10)))
    await storage.wait_for_revision(revision, 1)
    assert (entry.active.seq, entry.active.start_offset) == (1, 10)
    assert list(entry.segments) == [0, 1]


async def test_a_lost_push_is_noticed_at_the_next_one(
    service: LossyService, broker: BrokerCacheManager
) -> None:
    service.dropping = True
    await service.submit(*creating(topic()))
    service.dropping = False
    other = topic("other", T2)
    await broker.wait_for_revision(await service.submit(*creating(other)), 1)
    assert {meta.topic.name for meta in broker.known()} == {"orders", "other"}


async def test_a_push_that_comes_late_does_not_take_the_cache_back(
    service: MetaService, broker: BrokerCacheManager
) -> None:
    """The snapshot a cache starts from may be newer than pushes that are still on their way."""
    watch = service.watch()
    await service.submit(*creating(topic()))
    late = await watch.next()
    revision = await service.submit(DeleteTopic(topic_id=T1), RemoveTopic(topic_id=T1))
    await broker.wait_for_revision(revision, 1)
    await broker._take(late)
    assert (broker.known(), broker.revision) == ([], revision)


async def test_a_lost_push_is_repaired_when_no_other_comes(service: LossyService) -> None:
    broker = BrokerCacheManager(service, reconcile_s=FAST)
    storage = StorageCacheManager(service, reconcile_s=FAST)
    await broker.start()
    await storage.start()
    service.dropping = True
    await make_topic(service)
    await asyncio.gather(broker.wait_for_topic("orders", 2), storage.wait_for_shard(SHARD, 2))
    await service.submit(DeleteTopic(topic_id=T1), RemoveTopic(topic_id=T1))
    await broker.wait_until_gone("orders", T1, 2)
    await storage.wait_for_revision(await service.revision(), 2)
    assert storage.shards() == {}
    await broker.stop()
    await storage.stop()


async def test_a_cache_that_starts_late_has_everything(service: MetaService) -> None:
    await make_topic(service)
    cache = StorageCacheManager(service)
    await cache.start()
    entry = cache.shard(SHARD)
    assert entry is not None
    assert entry.active is not None
    await cache.stop()


async def test_a_cache_equals_the_state_after_any_number_of_changes(
    service: MetaService, broker: BrokerCacheManager, storage: StorageCacheManager
) -> None:
    for number in range(20):
        one = topic(f"t{number}", f"{number:032x}", 3)  # type: ignore[arg-type]
        await service.submit(*creating(one), ConfirmTopic(topic_id=one.topic_id))
        if number % 3 == 0:
            await service.submit(DeleteTopic(topic_id=one.topic_id))
            await service.submit(RemoveTopic(topic_id=one.topic_id))
    state = await service.snapshot()
    for cache in (broker, storage):
        await cache.wait_for_revision(state.revision, 1)
    assert {meta.key for meta in broker.known()} == set(state.topics)
    assert set(storage.shards()) == set(state.shards)
    for name, entry in storage.shards().items():
        assert tuple(entry.segments.values()) == state.segments_of(name)


async def test_a_cache_outlives_the_service_quietly(service: MetaService) -> None:
    await make_topic(service)
    cache = BrokerCacheManager(service)
    await cache.start()
    await service.close()
    await let_run(0.01)
    assert cache.topic("orders").topic_id == T1
    await cache.stop()


async def test_a_long_update_lets_others_run_between(
    service: MetaService, broker: BrokerCacheManager
) -> None:
    """The end of a topic with very many partitions is one update."""
    await service.submit(*creating(topic(partitions=EVENTS_AT_ONCE)))
    await service.submit(ConfirmTopic(topic_id=T1))
    await service.submit(DeleteTopic(topic_id=T1))
    cache = StorageCacheManager(service, reconcile_s=60)
    await cache.start()
    gone = asyncio.create_task(service.submit(RemoveTopic(topic_id=T1)))
    seen: set[int] = set()
    while cache.shards():
        await asyncio.sleep(0)
        if 0 < len(cache.shards()) < EVENTS_AT_ONCE:
            seen.add(len(cache.shards()))
            assert cache.revision < service.state.revision, "not before it is whole"
    await cache.wait_for_revision(await gone, 60)
    assert seen, "it is not taken in at one go"
    await cache.stop()
