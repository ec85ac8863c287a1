"""Every API that a node advertises, asked in its oldest and newest version by somebody who may do
nothing: each answers with the right error, and does nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from stratamq.broker.kafka.cluster import uuid_of
from stratamq.broker.kafka.security.apis.table import TABLE
from stratamq.wire.kafka.protocol import APIS, Versions
from stratamq.wire.kafka.protocol.messages.api_versions import ApiVersionsRequest
from stratamq.wire.kafka.protocol.schema import message_of
from tests.broker.security.requests import SAMPLES, TOLD_OTHERWISE, TOPIC
from tests.broker.security.support import Client, Front, client, codes, front

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def locked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Front]:
    path: Path = tmp_path_factory.mktemp("locked")
    async with front(path, authorizer="acl") as one:
        await one.core.topics.create(TOPIC, partitions=1, replicas=1)
        yield one


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def peer(locked: Front) -> AsyncIterator[Client]:
    async with client(locked.port) as one:
        yield one


async def advertised(peer: Client) -> dict[int, Versions]:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    answer = await peer.ask(request)
    return {one.api_key: Versions(one.min_version, one.max_version) for one in answer.api_keys}


async def test_every_advertised_api_is_tried_here(peer: Client) -> None:
    served = {APIS[key].request for key in await advertised(peer)}
    assert served <= set(SAMPLES), "add a sample, and the error its callers are told"
    assert served <= set(TABLE), "add a row: which right does it need?"


def _cases() -> Iterator[tuple[type, int]]:
    for request in SAMPLES:
        first, last = message_of(request).versions
        yield from ((request, version) for version in range(first, last + 1))


@pytest.mark.parametrize(
    ("request_type", "version"), list(_cases()), ids=lambda one: getattr(one, "__name__", one)
)
async def test_nobody_without_the_right_is_served(
    locked: Front, peer: Client, request_type: type, version: int
) -> None:
    served = (await advertised(peer)).get(message_of(request_type).key)
    if served is None or version not in served:
        return  # not served, and so not to be had by anybody
    before = locked.core.meta.state
    topic_id = uuid_of(locked.core.broker_cache.topic(TOPIC))
    sample = SAMPLES[request_type]
    told = TOLD_OTHERWISE.get((request_type, version), sample.told)
    answer = await peer.ask(sample.make(version, topic_id), version)
    assert codes(answer) == ({told} if told else set()), answer
    assert TOPIC not in repr(answer) or told, "its name is told to somebody who may not know it"
    after = locked.core.meta.state
    assert after == before, "it was refused, and done all the same"
