"""aiokafka's admin client. It knows no flexible version of any API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

INVALID_CONFIG, TOPIC_ALREADY_EXISTS = 40, 36


@pytest.fixture
async def admin(kafka: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    yield admin
    await admin.close()


def code(answer: Any) -> int:
    """Of the only topic in it."""
    return int(answer.topic_errors[0][1])


async def configs(admin: AIOKafkaAdminClient, topic: str) -> dict[str, str]:
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    (found,) = answer.resources
    assert found[0] == 0
    return {entry[0]: entry[1] for entry in found[4]}


async def test_a_topic_from_beginning_to_end(admin: AIOKafkaAdminClient, topic: str) -> None:
    wanted = NewTopic(topic, 2, 1, topic_configs={"retention.ms": "60000"})
    assert code(await admin.create_topics([wanted])) == 0
    assert code(await admin.create_topics([wanted])) == TOPIC_ALREADY_EXISTS
    bad = NewTopic(topic + "-bad", 2, 1, topic_configs={"retention.ms": "soon"})
    assert code(await admin.create_topics([bad])) == INVALID_CONFIG
    assert (await configs(admin, topic))["retention.ms"] == "60000"
    change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"segment.ms": "5000"})
    (altered,) = await admin.alter_configs([change])
    assert altered.resources[0][0] == 0
    found = await configs(admin, topic)
    assert (found["segment.ms"], found["retention.ms"]) == ("5000", str(168 * 3_600_000))
    await admin.create_partitions({topic: NewPartitions(3)})
    (described,) = await admin.describe_topics([topic])
    assert len(described["partitions"]) == 3
    deleted = await admin.delete_topics([topic])
    assert deleted.topic_error_codes == [(topic, 0)]
    assert topic not in await admin.list_topics()


async def test_records_and_groups(admin: AIOKafkaAdminClient, kafka: str, topic: str) -> None:
    await admin.create_topics([NewTopic(topic, 1, 1)])
    place, group = TopicPartition(topic, 0), f"group-of-{topic}"
    async with AIOKafkaProducer(bootstrap_servers=kafka) as producer:
        for _ in range(5):
            await producer.send_and_wait(topic, b"v", partition=0)
    deleted = await admin.delete_records({place: RecordsToDelete(before_offset=2)})
    assert deleted == {place: 2}
    async with AIOKafkaConsumer(
        bootstrap_servers=kafka, group_id=group, enable_auto_commit=False
    ) as consumer:
        consumer.assign([place])
        assert await consumer.beginning_offsets([place]) == {place: 2}
        await consumer.commit({place: 4})
    assert group in {one[0] for one in await admin.list_consumer_groups()}
    offsets = await admin.list_consumer_group_offsets(group)
    assert offsets[place].offset == 4
    (described,) = await admin.describe_consumer_groups([group])
    assert described.groups[0][:3] == (0, group, "Empty")
