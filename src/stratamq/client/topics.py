"""Topics: make, delete, widen, cut off their beginning."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.client.cluster import TopicPartition
from stratamq.client.connection import NodeConnection
from stratamq.client.failures import Refusal, check
from stratamq.client.router import Router
from stratamq.model.errors import StrataError, TopicNotFound
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

DEFAULT = -1


async def create_topic(
    router: Router, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> None:
    """AlreadyExists, InvalidConfig or InvalidName say why not."""
    entries = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=entries,
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=router.options.request_ms_max)

    async def once() -> None:
        answer = (await router.ask_any(request, CreateTopicsResponse)).topics[0]
        check(answer.error_code, f"topic {name!r}", answer.error_message)

    await router.retried(once)


async def delete_topic(router: Router, name: str) -> None:
    """TopicNotFound when there is none, unless an attempt whose answer was lost has deleted it."""
    state = DeleteTopicState(name=name, topic_id=NO_UUID)
    request = DeleteTopicsRequest(
        topics=[state], topic_names=[name], timeout_ms=router.options.request_ms_max
    )

    lost_answers: list[StrataError] = []

    async def once() -> None:
        answer = (await router.ask_any(request, DeleteTopicsResponse)).responses[0]
        if not (lost_answers and answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            _check(answer.error_code, name, answer.error_message)

    def failed(error: StrataError) -> None:
        if not isinstance(error, Refusal):
            lost_answers.append(error)

    await router.retried(once, failed)


async def add_partitions(router: Router, name: str, count: int) -> None:
    """Add partitions until the topic has `count` of them. TopicNotFound when there is none."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(
        topics=[topic], timeout_ms=router.options.request_ms_max, validate_only=False
    )

    async def once() -> None:
        answer = (await router.ask_any(request, CreatePartitionsResponse)).results[0]
        _check(answer.error_code, name, answer.error_message)

    await router.retried(once)
    await router.cluster([name])


def _check(code: int, name: str, said: str | None) -> None:
    """As `check`. A topic that is not there is no failure that may pass, as it is for readers and
    writers of a topic that was made a moment ago."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise TopicNotFound(f"there is no topic {name!r}")
    check(code, f"topic {name!r}", said)


async def delete_records(router: Router, place: TopicPartition, before: int) -> int:
    """Delete everything below the offset; return the new start of the log."""
    part = DeleteRecordsPartition(partition_index=place.partition, offset=before)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=place.topic, partitions=[part])],
        timeout_ms=router.options.request_ms_max,
    )

    async def once(node: NodeConnection) -> int:
        response = await node.ask(request, DeleteRecordsResponse, router.request_s)
        answer = response.topics[0].partitions[0]
        check(answer.error_code, f"delete records of {place}")
        return answer.low_watermark

    return await router.on_leader(place, once)
