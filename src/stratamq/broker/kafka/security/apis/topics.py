"""Rights to topics, their configs and tables: seeing, creating, widening, altering, deleting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stratamq.broker.kafka.security.rights import (
    NOTHING,
    REFUSAL,
    Judge,
    Rights,
    Verdict,
    each,
    listed,
    split,
)
from stratamq.model.access import CLUSTER_NAME, Operation, ResourceKind
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode, Steps
from stratamq.wire.kafka.protocol.messages.configs import (
    AlterConfigsResourceResponse,
    DescribeConfigsResult,
)
from stratamq.wire.kafka.protocol.messages.metadata import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    DescribeTopicPartitionsTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from stratamq.wire.kafka.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TOPIC = ResourceKind.TOPIC
NULL_NAME_FROM = 12


# -- Metadata --------------------------------------------------------------------------------------


def metadata(request: MetadataRequest, rights: Rights) -> Steps[Verdict | None]:
    if request.topics is None or _asks_for_all(request, rights):
        return None
    allowed, denied = yield from split(request.topics, lambda one: _may_see(one, request, rights))
    if not denied:
        return None
    hidden = yield from listed(_hidden(one, rights.caller.version) for one in denied)

    def finish(answer: Any) -> Any:
        # Without a topic left, a request of version 0 would ask for all of them.
        answer.topics = [*answer.topics, *hidden] if allowed else hidden
        return answer

    return Verdict(replace(request, topics=allowed), finish)


def _asks_for_all(request: MetadataRequest, rights: Rights) -> bool:
    return request.topics is None or (rights.caller.version == 0 and not request.topics)


def _may_see(topic: MetadataRequestTopic, request: MetadataRequest, rights: Rights) -> bool:
    if not rights.on_named_topic(Operation.DESCRIBE, topic.name, topic.topic_id):
        return False
    creates = rights.creates_topics and request.allow_auto_topic_creation
    if not creates or topic.topic_id != NO_UUID or rights.exists(topic.name or ""):
        return True
    return may_create(topic, rights)


def _hidden(topic: MetadataRequestTopic, version: int) -> MetadataResponseTopic:
    unnamed = None if version >= NULL_NAME_FROM else ""
    return MetadataResponseTopic(
        error_code=NO_TOPIC,
        name=topic.name if topic.topic_id == NO_UUID else unnamed,
        topic_id=topic.topic_id,
        partitions=[],
    )


def without_hidden_topics(
    request: MetadataRequest, response: MetadataResponse, rights: Rights
) -> Steps[None]:
    if _asks_for_all(request, rights):
        response.topics, _ = yield from split(
            response.topics, lambda one: rights.on_topic(Operation.DESCRIBE, one.name or "")
        )


def report_in_metadata(
    request: MetadataRequest, response: MetadataResponse, rights: Rights
) -> Steps[None]:
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if not topic.error_code:
                topic.topic_authorized_operations = rights.operations(TOPIC, topic.name or "")
                yield
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(rights)


def cluster_operations(rights: Rights) -> int:
    may_describe = rights.on_cluster(Operation.DESCRIBE)
    return rights.operations(ResourceKind.CLUSTER) if may_describe else NOTHING


# -- DescribeTopicPartitions -----------------------------------------------------------------------


def hidden_partitions(topic: DescribeTopicPartitionsTopic) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=NO_TOPIC, name=topic.name, topic_id=NO_UUID, partitions=[]
    )


def without_hidden_partitions(
    request: DescribeTopicPartitionsRequest,
    response: DescribeTopicPartitionsResponse,
    rights: Rights,
) -> Steps[None]:
    response.topics, _ = yield from split(
        response.topics,
        lambda one: bool(one.error_code) or rights.on_topic(Operation.DESCRIBE, one.name or ""),
    )


def report_in_partitions(
    request: DescribeTopicPartitionsRequest,
    response: DescribeTopicPartitionsResponse,
    rights: Rights,
) -> Steps[None]:
    for topic in response.topics:
        if not topic.error_code:
            topic.topic_authorized_operations = rights.operations(TOPIC, topic.name or "")
            yield


# -- creating, deleting, widening ------------------------------------------------------------------


def may_create(topic: Any, rights: Rights) -> bool:
    return rights.on_cluster(Operation.CREATE) or rights.on_topic(Operation.CREATE, topic.name)


def not_created(topic: CreatableTopic) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name, error_code=NO_TOPIC, error_message="Authorization failed."
    )


def without_hidden_configs(
    request: CreateTopicsRequest, response: CreateTopicsResponse, rights: Rights
) -> Steps[None]:
    for topic in response.topics:
        yield
        if topic.error_code or rights.on_topic(Operation.DESCRIBE_CONFIGS, topic.name):
            continue
        topic.topic_config_error_code = NO_TOPIC
        topic.num_partitions = topic.replication_factor = -1
        topic.configs = []


_delete_by_name = each(
    "topic_names",
    lambda name, rights: rights.on_topic(Operation.DELETE, name),
    lambda name: _not_deleted(name),
    DeleteTopicsResponse,
    "responses",
)
_delete_by_id = each(
    "topics",
    lambda one, rights: rights.on_named_topic(Operation.DELETE, one.name, one.topic_id),
    lambda one: _not_deleted(one.name, one.topic_id),
    DeleteTopicsResponse,
    "responses",
)


def delete_topics(request: DeleteTopicsRequest, rights: Rights) -> Steps[Verdict | None]:
    judge = _delete_by_name if request.topic_names else _delete_by_id
    return judge(request, rights)


def _not_deleted(name: str | None, topic_id: bytes = NO_UUID) -> DeletableTopicResult:
    """By id, the answer has no name: a caller that may not delete a topic may not know it."""
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=NO_TOPIC, error_message=NO_TOPIC.text
    )


def topic_error(result: type) -> Callable[[Any], Any]:
    """Refuse a topic in a result that has its name and the error, and nothing else."""
    return lambda topic: result(name=topic.name, error_code=NO_TOPIC, error_message=NO_TOPIC.text)


# -- configs ---------------------------------------------------------------------------------------

CONFIG_KINDS = {2: TOPIC, 32: ResourceKind.GROUP}
"""By the config API's own numbers; configs of everything else are the cluster's."""


def may_use_configs(operation: Operation, resource: Any, rights: Rights) -> bool:
    kind = CONFIG_KINDS.get(resource.resource_type, ResourceKind.CLUSTER)
    name = CLUSTER_NAME if kind is ResourceKind.CLUSTER else resource.resource_name
    return rights.may(operation, kind, name)


def configs(
    operation: Operation, refuse: Any, response: type, answers: str, items: str = "resources"
) -> Judge:
    return each(
        items,
        lambda one, rights: may_use_configs(operation, one, rights),
        refuse,
        response,
        answers,
    )


def hidden_configs(resource: Any) -> DescribeConfigsResult:
    return DescribeConfigsResult(**_refusal(resource), configs=[])


def unaltered_configs(resource: Any) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(**_refusal(resource))


def _refusal(resource: Any) -> dict[str, Any]:
    code = REFUSAL[CONFIG_KINDS.get(resource.resource_type, ResourceKind.CLUSTER)]
    return {
        "error_code": code,
        "error_message": code.text,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }
