"""Metadata: who is there, what there is, and topics made by asking."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from stratamq.broker.kafka.cluster import brokers, new_cluster_id, uuid_of
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.metadata import Metadata
from stratamq.meta.nodes import RegisterNode
from stratamq.model.config import load
from stratamq.model.types import NodeId
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.data.conftest import Rig


def wanted(*names: str, create: bool = True) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


async def ask(rig: Rig, request: MetadataRequest, version: int = 13) -> Any:
    return await rig.ask(request, version)


async def test_the_cluster(rig: Rig) -> None:
    await rig.core.meta.submit(RegisterNode(node_id=NodeId(1), address="[::1]:9999"))
    response = await ask(rig, MetadataRequest(topics=[]))
    assert [(one.node_id, one.host, one.port) for one in response.brokers] == [(1, "::1", 9999)]
    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert brokers(rig.core.meta.state)[0].host == "::1"


async def test_all_topics_or_none(rig: Rig) -> None:
    await rig.core.topics.create("a", partitions=3)
    await rig.core.topics.create("b")
    assert [one.name for one in (await ask(rig, MetadataRequest(topics=None))).topics] == ["a", "b"]
    assert (await ask(rig, MetadataRequest(topics=[]))).topics == []
    assert len((await ask(rig, MetadataRequest(topics=[]), 0)).topics) == 2


async def test_a_partition_has_leader_epoch_and_replicas(rig: Rig) -> None:
    topic = await rig.core.topics.create("a", partitions=2)
    (found,) = (await ask(rig, wanted("a"))).topics
    assert found.topic_id == uuid_of(topic)
    assert [
        (one.partition_index, one.leader_id, one.leader_epoch, *one.replica_nodes, *one.isr_nodes)
        for one in found.partitions
    ] == [(0, 1, 0, 1, 1), (1, 1, 0, 1, 1)]
    assert [list(one.offline_replicas) for one in found.partitions] == [[], []]


async def test_asking_creates(rig: Rig) -> None:
    (found,) = (await ask(rig, wanted("new"))).topics
    assert found.error_code == 0
    assert len(found.partitions) == 2, "num.partitions"
    assert rig.core.broker_cache.topic("new").partitions == 2


async def test_many_who_ask_at_once_get_one_topic(rig: Rig) -> None:
    answers = await asyncio.gather(*(ask(rig, wanted("new")) for _ in range(20)))
    ids = {answer.topics[0].topic_id for answer in answers if not answer.topics[0].error_code}
    assert len(ids) == 1
    codes = {answer.topics[0].error_code for answer in answers}
    assert codes <= {0, ErrorCode.LEADER_NOT_AVAILABLE}


async def test_unless_the_client_or_the_node_does_not_want_it(rig: Rig) -> None:
    (found,) = (await ask(rig, wanted("new", create=False))).topics
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    config = load(flags={"auto.create.topics.enable": False})
    closed = Metadata(replace(rig.services, config=config), "cluster")
    handler = closed.handlers()[MetadataRequest].handler
    response = await handler(wanted("new"), Caller(version=4))
    assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rig.core.broker_cache.topics() == []


@pytest.mark.parametrize("name", ["", "..", "a b", "ä", "x" * 250])
async def test_bad_names(rig: Rig, name: str) -> None:
    (found,) = (await ask(rig, wanted(name))).topics
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_name_that_collides(rig: Rig) -> None:
    await rig.core.topics.create("a.b")
    (found,) = (await ask(rig, wanted("a_b"))).topics
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_by_id(rig: Rig) -> None:
    topic = await rig.core.topics.create("a")
    known = MetadataRequestTopic(name=None, topic_id=uuid_of(topic))
    unknown = MetadataRequestTopic(name=None, topic_id=b"\1" * 16)
    response = await ask(rig, MetadataRequest(topics=[known, unknown]))
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("a", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert response.topics[0].topic_id != NO_UUID


def test_cluster_ids_look_like_kafkas() -> None:
    assert len(new_cluster_id()) == 22
    assert new_cluster_id() != new_cluster_id()
