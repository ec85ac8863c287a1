"""aiokafka, without groups. It asks for ApiVersions in version 0 and nothing flexible."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

SECONDS_MAX = 20


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_what_goes_in_comes_out(kafka: str, topic: str, codec: str | None) -> None:
    values = [f"value {number}".encode() * 10 for number in range(200)]
    async with AIOKafkaProducer(
        bootstrap_servers=kafka, compression_type=codec, linger_ms=5
    ) as producer:
        waiting = [await producer.send(topic, value, key=b"k") for value in values]
        sent = await asyncio.wait_for(asyncio.gather(*waiting), SECONDS_MAX)
    assert [one.offset for one in sent] == list(range(200))
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        found = [await asyncio.wait_for(consumer.getone(), SECONDS_MAX) for _ in range(len(values))]
        ends = await consumer.end_offsets([TopicPartition(topic, 0)])
    finally:
        await consumer.stop()
    assert [message.value for message in found] == values
    assert ends == {TopicPartition(topic, 0): 200}
