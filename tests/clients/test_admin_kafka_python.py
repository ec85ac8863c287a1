"""kafka-python's admin client. It uses the newest version of every API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic, OffsetSpec
from kafka.structs import OffsetAndMetadata

SECONDS_MAX = 20


@pytest.fixture
def admin(kafka: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=kafka)
    yield admin
    admin.close()


def produce(kafka: str, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka, enable_idempotence=False)
    for number in range(count):
        producer.send(topic, b"%d" % number, partition=0).get(SECONDS_MAX)
    producer.close(SECONDS_MAX)


def resource(topic: str, configs: object = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, topic, configs)


def test_a_topic_from_beginning_to_end(admin: KafkaAdminClient, topic: str) -> None:
    wanted = NewTopic(topic, 3, 1, topic_configs={"retention.ms": "60000"})
    admin.create_topics([wanted])
    with pytest.raises(errors.TopicAlreadyExistsError):
        admin.create_topics([wanted])
    (described,) = admin.describe_topics([topic])
    assert [one["partition_index"] for one in described["partitions"]] == [0, 1, 2]
    admin.create_partitions({topic: 4})
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_partitions({topic: 2})
    pages = admin.describe_topic_partitions([topic], response_partition_limit=3)
    assert len(pages["topics"][0]["partitions"]) == 3
    assert pages["next_cursor"] is not None
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_topics_that_are_refused(admin: KafkaAdminClient, topic: str) -> None:
    with pytest.raises(errors.InvalidConfigurationError):
        admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "soon"})])
    with pytest.raises(errors.InvalidReplicationFactorError):
        admin.create_topics([NewTopic(topic, 1, 2)])
    with pytest.raises(errors.InvalidTopicError):
        admin.create_topics([NewTopic("no such name!", 1, 1)])
    admin.create_topics([NewTopic(topic, -1, -1)], validate_only=True)
    assert topic not in admin.list_topics()


def test_configs(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.alter_configs([resource(topic, {"retention.ms": ("SET", "5000")})])
    admin.alter_configs([resource(topic, {"cleanup.policy": ("APPEND", "compact")})])
    found = admin.describe_configs([resource(topic)], config_filter="all")["topic"][topic]
    assert (found["retention.ms"]["value"], found["cleanup.policy"]["value"]) == (
        "5000",
        "compact,delete",
    )
    admin.alter_configs([resource(topic, {"retention.ms": ("DELETE", None)})])
    found = admin.describe_configs([resource(topic)], config_filter="modified")["topic"][topic]
    assert "retention.ms" not in found
    assert topic in str(admin.list_config_resources())


def test_records_sizes_and_leaders(admin: KafkaAdminClient, kafka: str, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])
    produce(kafka, topic, 10)
    place = TopicPartition(topic, 0)
    assert admin.delete_records({place: 4})[place]["low_watermark"] == 4
    (node,) = admin.describe_log_dirs({topic: [0]})
    assert f"'{topic}'" in str(node)
    assert admin.describe_cluster()["controller_id"] == 1
    assert admin.list_partition_reassignments() == {}


def test_groups(admin: KafkaAdminClient, kafka: str, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])
    produce(kafka, topic, 5)
    group, place = f"group-of-{topic}", TopicPartition(topic, 0)
    admin.alter_group_offsets(group, {place: OffsetAndMetadata(3, "", -1)})
    assert group in {one["group_id"] for one in admin.list_groups()}
    described = admin.describe_groups([group])[group]
    assert described["group_state"] == "Empty"
    admin.reset_group_offsets(group, {place: OffsetSpec.EARLIEST})
    assert admin.list_group_offsets({group: None})[group][place].offset == 0
    admin.delete_groups([group])
    assert group not in {one["group_id"] for one in admin.list_groups()}
