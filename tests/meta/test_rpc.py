"""The Meta Service over gRPC: what a caller in another process sees of answers, refusals, large
states, and of a service that comes and goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stratamq.meta.evolve import entities_of, restored
from stratamq.meta.nodes import RegisterNode
from stratamq.meta.rpc.client import MetaConnection, refused
from stratamq.meta.rpc.server import PART_ROWS, MetaServer
from stratamq.meta.service import MetaService
from stratamq.meta.store import RocksMetaStore
from stratamq.meta.topics import BrokerCacheManager, ConfirmTopic, CreateTopic, DeleteTopic
from stratamq.model.errors import (
    AlreadyExists,
    CannotListen,
    Closed,
    OffsetOutOfRange,
    StrataError,
    TopicNotFound,
    Unreachable,
)
from tests.meta.support import ME, T1, T2, creating, topic, with_topic
from tests.waiting import until


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[MetaService]:
    service = MetaService(RocksMetaStore(tmp_path))
    await service.open()
    await service.submit(RegisterNode(node_id=ME, address="me:1"))
    yield service
    await service.close()


@pytest.fixture
async def server(service: MetaService) -> AsyncIterator[tuple[MetaServer, int]]:
    server = MetaServer(service)
    port = await server.start("127.0.0.1", 0)
    yield server, port
    await server.stop(0)


@pytest.fixture
async def connection(server: tuple[MetaServer, int]) -> AsyncIterator[MetaConnection]:
    connection = MetaConnection(f"127.0.0.1:{server[1]}")
    yield connection
    await connection.close()


async def test_commands_are_applied_all_or_none(
    service: MetaService, connection: MetaConnection
) -> None:
    revision = await connection.submit(*creating(topic()), ConfirmTopic(topic_id=T1))
    assert revision == service.state.revision == await connection.revision()
    second = topic("other", T2)
    with pytest.raises(AlreadyExists, match="orders"):
        await connection.submit(
            CreateTopic(topic=second, creator=ME),
            CreateTopic(topic=topic("orders", T2), creator=ME),
        )
    assert service.state.revision == revision
    with pytest.raises(TopicNotFound):
        await connection.submit(DeleteTopic(topic_id=T2))


async def test_a_snapshot_of_many_parts(service: MetaService, connection: MetaConnection) -> None:
    large = topic(partitions=PART_ROWS)
    await service.submit(*creating(large), ConfirmTopic(topic_id=T1))
    assert await connection.snapshot() == service.state


def test_a_snapshots_entities_make_the_state_again() -> None:
    state = with_topic(topic(partitions=3))
    assert restored(entities_of(state), state.revision) == state


async def test_a_cache_outlives_a_service_that_is_started_again(
    service: MetaService, server: tuple[MetaServer, int], connection: MetaConnection
) -> None:
    """The address stays; what happened meanwhile is seen, without waiting for a reconcile."""
    cache = BrokerCacheManager(connection, reconcile_s=3600)  # type: ignore[arg-type]
    await cache.start()
    await server[0].stop(0)
    with pytest.raises(Unreachable, match=f"127.0.0.1:{server[1]}"):
        await connection.revision()
    await service.submit(*creating(topic()), ConfirmTopic(topic_id=T1))
    again = MetaServer(service)
    await again.start("127.0.0.1", server[1])
    await until(lambda: cache.revision == service.state.revision, "the cache has followed")
    assert cache.topic("orders").topic_id == T1
    await cache.stop()
    await again.stop(0)


async def test_a_connection_that_is_closed_says_so(connection: MetaConnection) -> None:
    await connection.close()
    with pytest.raises(Closed):
        await connection.revision()
    with pytest.raises(Closed):
        connection.watch()


async def test_a_port_that_is_taken_is_named(
    service: MetaService, server: tuple[MetaServer, int]
) -> None:
    second = MetaServer(service)
    with pytest.raises(CannotListen, match=str(server[1])):
        await second.start("127.0.0.1", server[1])
    await second.stop(0)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("OffsetOutOfRange", OffsetOutOfRange), ("OfALaterRelease", StrataError), ("os", StrataError)],
)
def test_refusals_are_the_services_own(kind: str, expected: type[StrataError]) -> None:
    error = refused(kind, "what it said")
    assert (type(error), str(error)) == (expected, "what it said")
