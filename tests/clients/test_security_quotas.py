"""A quota, as a client sees it: told in the answers, and felt."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from stratamq.wire.kafka.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaEntity,
    QuotaOperation,
)
from tests.broker.security.support import client, codes
from tests.clients.node import Node, running

SECONDS_MAX = 30
"""Far more than the quotas make it take."""

PER_SECOND = 100_000
MESSAGES = [b"x" * 10_000] * 40
LEAST_S = 2.0
"""400 KB at 100 KB/s, of which the first window is free; half of the rest is margin."""


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Two windows only: bursts are held against a client at once."""
    data: Path = tmp_path_factory.mktemp("limited")
    with running(data, "--topic-flush", "os", "--quota-window-num", "2") as node:
        asyncio.run(limit(node, "slow-producer", "producer_byte_rate"))
        asyncio.run(limit(node, "slow-consumer", "consumer_byte_rate"))
        yield node
        assert node.end() == 0


async def limit(node: Node, client_id: str, kind: str) -> None:
    """By hand: neither librdkafka nor kafka-python has a call for it."""
    entity = [QuotaEntity(entity_type="client-id", entity_name=client_id)]
    ops = [QuotaOperation(key=kind, value=float(PER_SECOND), remove=False)]
    entry = QuotaAlteration(entity=entity, ops=ops)
    async with client(node.port) as peer:
        request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
        assert not codes(await peer.ask(request))


def produced(node: Node, topic: str, client_id: str) -> tuple[float, list[float]]:
    """How long it took, and the throttle times that were told."""
    told: list[float] = []
    config = {
        "bootstrap.servers": node.address,
        "client.id": client_id,
        "linger.ms": 0,
        "batch.num.messages": 1,
        "max.in.flight.requests.per.connection": 1,
        "throttle_cb": lambda event: told.append(event.throttle_time),
    }
    producer = Producer(config)
    producer.list_topics(topic, SECONDS_MAX)
    began = time.monotonic()
    for value in MESSAGES:
        producer.produce(topic, value)
    assert producer.flush(SECONDS_MAX) == 0
    return time.monotonic() - began, told


def consumed(node: Node, topic: str, client_id: str) -> float:
    config: dict[str, Any] = {
        "bootstrap.servers": node.address,
        "client.id": client_id,
        "group.id": "unused",
        "message.max.bytes": 20_000,
        "fetch.message.max.bytes": 20_000,
        "fetch.max.bytes": 20_000,
    }
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, 0, 0)])
    began = time.monotonic()
    found = 0
    while found < len(MESSAGES):
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        assert message.error() is None
        found += 1
    took = time.monotonic() - began
    consumer.close()
    return took


def test_a_producer_over_its_quota_is_told_and_held_up(limited: Node, topic: str) -> None:
    took, told = produced(limited, topic, "slow-producer")
    assert took > LEAST_S
    assert any(one > 0 for one in told)


def test_a_consumer_over_its_quota_is_held_up(limited: Node, topic: str) -> None:
    _, told = produced(limited, topic, "anybody")
    assert not any(told), "somebody without a quota was throttled"
    assert consumed(limited, topic, "slow-consumer") > LEAST_S
