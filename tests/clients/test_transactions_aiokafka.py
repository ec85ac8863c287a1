"""aiokafka: transactions in the oldest versions anybody still sends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.clients.node import Node, running
from tests.clients.transactional import FLAGS, SECONDS_MAX, values


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("transactions"), *FLAGS) as node:
        yield node
        assert node.end() == 0, node.logged()


def producer_of(kafka: str, name: str) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=name)


async def test_what_is_committed_is_read_and_what_is_aborted_is_not(kafka: str, topic: str) -> None:
    async with producer_of(kafka, topic) as producer:
        for number in range(6):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    found = [await asyncio.wait_for(consumer.getone(), SECONDS_MAX) for _ in range(3)]
    await consumer.stop()
    assert [one.value for one in found] == [b"0", b"2", b"4"]
    every = await asyncio.to_thread(values, kafka, topic, committed=False)
    assert every == [b"%d" % number for number in range(6)]


async def test_a_zombie_is_fenced(kafka: str, topic: str) -> None:
    async with producer_of(kafka, topic) as zombie:
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"zombie")
        async with producer_of(kafka, topic) as successor:
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
            async with successor.transaction():
                await successor.send_and_wait(topic, b"successor")
    assert await asyncio.to_thread(values, kafka, topic) == [b"successor"]


@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_go_with_the_transaction(kafka: str, topic: str, commit: bool) -> None:
    place = TopicPartition(topic, 0)
    async with producer_of(kafka, topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"0")
        await producer.send_offsets_to_transaction({place: 1}, topic)
        if commit:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=kafka, group_id=topic)
    await consumer.start()
    try:
        assert await consumer.committed(place) == (1 if commit else None)
    finally:
        await consumer.stop()
