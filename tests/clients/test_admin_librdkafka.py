"""confluent-kafka's AdminClient (librdkafka)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import ConsumerGroupTopicPartitions as GroupOffsets
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

SECONDS_MAX = 20


@pytest.fixture
def admin(kafka: str) -> Iterator[AdminClient]:
    with AdminClient({"bootstrap.servers": kafka}) as admin:
        yield admin


def done(futures: dict[Any, Any]) -> Any:
    """The one result of a call, or its exception."""
    (future,) = futures.values()
    return future.result(SECONDS_MAX)


def refused(futures: dict[Any, Any]) -> int:
    with pytest.raises(KafkaException) as failure:
        done(futures)
    return int(failure.value.args[0].code())


def configs(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    return done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))


def changed(topic: str, name: str, operation: AlterConfigOpType, value: str) -> ConfigResource:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])


def produce(kafka: str, topic: str, count: int) -> None:
    with Producer({"bootstrap.servers": kafka}) as producer:
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(SECONDS_MAX) == 0


def test_a_topic_from_beginning_to_end(admin: AdminClient, topic: str) -> None:
    wanted = NewTopic(topic, num_partitions=3, config={"retention.ms": "60000"})
    done(admin.create_topics([wanted], operation_timeout=SECONDS_MAX))
    described = done(admin.describe_topics(TopicCollection([topic])))
    assert [one.id for one in described.partitions] == [0, 1, 2]
    assert {one.leader.id for one in described.partitions} == {1}
    assert refused(admin.create_topics([wanted])) == KafkaError.TOPIC_ALREADY_EXISTS
    done(admin.create_partitions([NewPartitions(topic, 5)]))
    assert len(admin.list_topics(topic, SECONDS_MAX).topics[topic].partitions) == 5
    assert refused(admin.create_partitions([NewPartitions(topic, 4)])) == (
        KafkaError.INVALID_PARTITIONS
    )
    done(admin.delete_topics([topic], operation_timeout=SECONDS_MAX))
    assert topic not in admin.list_topics(timeout=SECONDS_MAX).topics
    assert refused(admin.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART


REFUSED = {
    "config": ({"config": {"retention": "1"}}, KafkaError.INVALID_CONFIG),
    "replicas": ({"replication_factor": 3}, KafkaError.INVALID_REPLICATION_FACTOR),
    "placed": ({"replica_assignment": [[9]]}, KafkaError.INVALID_REPLICA_ASSIGNMENT),
}


@pytest.mark.parametrize("case", REFUSED)
def test_topics_that_are_refused(admin: AdminClient, topic: str, case: str) -> None:
    more, code = REFUSED[case]
    wanted = NewTopic(topic, num_partitions=1, **more)
    assert refused(admin.create_topics([wanted])) == code
    assert topic not in admin.list_topics(timeout=SECONDS_MAX).topics


def test_only_checked(admin: AdminClient, topic: str) -> None:
    done(admin.create_topics([NewTopic(topic, num_partitions=1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=SECONDS_MAX).topics


def test_configs_are_described_changed_and_reset(admin: AdminClient, topic: str) -> None:
    done(admin.create_topics([NewTopic(topic, 1, config={"retention.ms": "60000"})]))
    found = configs(admin, topic)
    assert (found["retention.ms"].value, found["retention.ms"].source) == (
        "60000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert found["segment.bytes"].is_default
    change = changed(topic, "cleanup.policy", AlterConfigOpType.APPEND, "compact")
    done(admin.incremental_alter_configs([change]))
    assert configs(admin, topic)["cleanup.policy"].value == "compact,delete"
    bad = changed(topic, "cleanup.policies", AlterConfigOpType.SET, "compact")
    assert refused(admin.incremental_alter_configs([bad])) == KafkaError.INVALID_CONFIG
    whole = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "5000"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        done(admin.alter_configs([whole]))
    found = configs(admin, topic)
    assert (found["segment.ms"].value, found["cleanup.policy"].value) == ("5000", "delete")


def test_the_broker_describes_itself(admin: AdminClient, kafka: str) -> None:
    found = done(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert found["advertised.listeners"].value == f"PLAINTEXT://{kafka}"
    assert found["auto.create.topics.enable"].value == "true"
    assert found["log.dirs"].is_read_only
    cluster = admin.describe_cluster().result(SECONDS_MAX)
    assert (cluster.controller.id, [one.id for one in cluster.nodes]) == (1, [1])


def test_a_smaller_limit_holds_at_once(admin: AdminClient, kafka: str, topic: str) -> None:
    done(admin.create_topics([NewTopic(topic, 1)]))
    produce(kafka, topic, 1)
    change = changed(topic, "max.message.bytes", AlterConfigOpType.SET, "500")
    done(admin.incremental_alter_configs([change]))
    told: list[KafkaError | None] = []
    with Producer({"bootstrap.servers": kafka, "retries": 0}) as producer:
        producer.produce(topic, b"x" * 1000, on_delivery=lambda error, _: told.append(error))
        producer.flush(SECONDS_MAX)
    (error,) = told
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_records_are_deleted(admin: AdminClient, kafka: str, topic: str) -> None:
    done(admin.create_topics([NewTopic(topic, 1)]))
    produce(kafka, topic, 10)
    place = TopicPartition(topic, 0, 4)
    assert done(admin.delete_records([place])).low_watermark == 4
    earliest = done(admin.list_offsets({place: OffsetSpec.earliest()}))
    assert earliest.offset == 4
    beyond = TopicPartition(topic, 0, 11)
    assert refused(admin.delete_records([beyond])) == KafkaError.OFFSET_OUT_OF_RANGE


def test_nobody_has_to_be_elected(admin: AdminClient, topic: str) -> None:
    done(admin.create_topics([NewTopic(topic, 1)]))
    place = TopicPartition(topic, 0)
    result = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(SECONDS_MAX)
    assert result[place].code() == KafkaError.ELECTION_NOT_NEEDED


def test_groups_are_listed_described_reset_and_deleted(
    admin: AdminClient, kafka: str, topic: str
) -> None:
    done(admin.create_topics([NewTopic(topic, 2)]))
    produce(kafka, topic, 5)
    group = f"group-of-{topic}"
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    consumer.close()
    groups = admin.list_consumer_groups().result(SECONDS_MAX)
    assert group in {one.group_id for one in groups.valid}
    described = done(admin.describe_consumer_groups([group]))
    assert (described.state.name, list(described.members)) == ("EMPTY", [])
    done(admin.alter_consumer_group_offsets([GroupOffsets(group, [TopicPartition(topic, 0, 2)])]))
    found = done(admin.list_consumer_group_offsets([GroupOffsets(group)]))
    assert [(one.partition, one.offset) for one in found.topic_partitions] == [(0, 2)]
    done(admin.delete_consumer_groups([group]))
    groups = admin.list_consumer_groups().result(SECONDS_MAX)
    assert group not in {one.group_id for one in groups.valid}


def test_what_goes_with_its_topic(admin: AdminClient, kafka: str, topic: str) -> None:
    """A topic that is made anew under the same name begins at nothing."""
    for count in (3, 1):
        done(admin.create_topics([NewTopic(topic, 1)]))
        produce(kafka, topic, count)
        place = TopicPartition(topic, 0)
        spec = {place: OffsetSpec.latest()}
        isolation = IsolationLevel.READ_UNCOMMITTED
        assert done(admin.list_offsets(spec, isolation_level=isolation)).offset == count
        done(admin.delete_topics([topic], operation_timeout=SECONDS_MAX))


def test_a_brokers_configs(admin: AdminClient) -> None:
    def altered(name: str, operation: AlterConfigOpType, value: str | None) -> ConfigResource:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        return ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])

    def described() -> ConfigEntry:
        return done(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))[name]

    name = "transaction.max.timeout.ms"
    before = described()
    assert not before.is_read_only
    done(admin.incremental_alter_configs([altered(name, AlterConfigOpType.SET, "800000")]))
    assert (described().value, described().source) == (
        "800000",
        ConfigSource.DYNAMIC_BROKER_CONFIG.value,
    )
    done(admin.incremental_alter_configs([altered(name, AlterConfigOpType.DELETE, None)]))
    assert (described().value, described().source) == (before.value, before.source)
    dirs = altered("log.dirs", AlterConfigOpType.SET, "/x")
    assert refused(admin.incremental_alter_configs([dirs])) == KafkaError.INVALID_REQUEST
