"""aiokafka in groups: the oldest versions anybody still sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.clients.groups import FLAGS, PARTITIONS, SECONDS_MAX
from tests.clients.node import Node, running
from tests.clients.test_groups_librdkafka import Member
from tests.waiting import until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("groups"), *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


async def fill(address: str, topic: str, count: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        for partition in range(PARTITIONS):
            for number in range(count):
                await producer.send_and_wait(topic, b"%d" % number, partition=partition)


@asynccontextmanager
async def member_of(address: str, topic: str) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=f"g-{topic}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=100,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def test_members_share_commit_and_take_over(kafka: str, topic: str) -> None:
    await fill(kafka, topic, 3)
    async with member_of(kafka, topic) as first:
        await until(lambda: len(first.assignment()) == PARTITIONS)
        for _ in range(3 * PARTITIONS):
            await asyncio.wait_for(first.getone(), SECONDS_MAX)
        await first.commit()
        async with member_of(kafka, topic) as second:
            await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
            assert not first.assignment() & second.assignment()
            for place in second.assignment():
                assert await second.committed(place) == 3
        await until(lambda: len(first.assignment()) == PARTITIONS)
        await fill(kafka, topic, 1)
        found = [await asyncio.wait_for(first.getone(), SECONDS_MAX) for _ in range(PARTITIONS)]
        assert {one.offset for one in found} == {3}


async def test_a_member_goes_on_when_the_group_is_upgraded_and_downgraded(
    kafka: str, topic: str
) -> None:
    await fill(kafka, topic, 3)
    async with member_of(kafka, topic) as first:
        await until(lambda: len(first.assignment()) == PARTITIONS)
        for _ in range(3 * PARTITIONS):
            await asyncio.wait_for(first.getone(), SECONDS_MAX)
        await first.commit()
        with closing(Member(kafka, "consumer", f"g-{topic}", topic)) as new:
            await until(lambda: new.has(2) and len(first.assignment()) == 2)
            assert {one.partition for one in first.assignment()}.isdisjoint(new.partitions)
            assert not new.values, "it went on where the first was"
        await until(lambda: len(first.assignment()) == PARTITIONS)
        await fill(kafka, topic, 1)
        found = [await asyncio.wait_for(first.getone(), SECONDS_MAX) for _ in range(PARTITIONS)]
        assert {one.offset for one in found} == {3}
