"""Rights to groups: their members, their offsets, and the topics of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from stratamq.broker.kafka.security.rights import (
    REFUSAL,
    Judge,
    Rights,
    Verdict,
    each,
    listed,
    parted,
    refused,
    split,
    whole,
)
from stratamq.model.access import Operation, ResourceKind
from stratamq.wire.kafka.protocol import ErrorCode, Steps
from stratamq.wire.kafka.protocol.messages import consumer_groups, group_offsets, groups
from stratamq.wire.kafka.protocol.messages.groups_admin import (
    DeletableGroupResult,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
GROUP = ResourceKind.GROUP
NOWHERE = -1
KEY_KINDS = {0: GROUP, 1: ResourceKind.TRANSACTIONAL_ID}
BATCHED_COORDINATORS_FROM = 4
BATCHED_OFFSETS_FROM = 8
GROUP_ERROR_FROM = 2


def member(refuse: Callable[[Any, ErrorCode], Any]) -> Judge:
    """A member of a group has to be allowed to read it."""
    return whole(Operation.READ, GROUP, refuse, lambda request: request.group_id)


# -- FindCoordinator -------------------------------------------------------------------------------


def find_coordinator(
    request: groups.FindCoordinatorRequest, rights: Rights
) -> Steps[Verdict | None]:
    kind = KEY_KINDS.get(request.key_type)
    if kind is None:
        return None
    batched = rights.caller.version >= BATCHED_COORDINATORS_FROM
    keys = request.coordinator_keys if batched else [request.key]
    allowed, denied = yield from split(keys, lambda key: rights.may(Operation.DESCRIBE, kind, key))
    if not denied:
        return None
    code, answer = REFUSAL[kind], groups.FindCoordinatorResponse
    if not batched:
        return refused(answer(error_code=code, error_message=code.text, node_id=-1, port=-1))
    unknown = yield from listed(
        groups.Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.text
        )
        for key in denied
    )
    return parted(request, "coordinator_keys", allowed, unknown, answer, "coordinators")


# -- KIP-848 ---------------------------------------------------------------------------------------


def consumer_heartbeat(
    request: consumer_groups.ConsumerGroupHeartbeatRequest, rights: Rights
) -> Steps[Verdict | None]:
    code = ErrorCode.NONE
    if not rights.on_group(Operation.READ, request.group_id):
        code = NO_GROUP
    else:
        names = request.subscribed_topic_names or ()
        _, hidden = yield from split(names, lambda name: rights.on_topic(Operation.DESCRIBE, name))
        if not hidden:
            return None
        code = NO_TOPIC
    return refused(
        consumer_groups.ConsumerGroupHeartbeatResponse(
            error_code=code, error_message=code.text, member_epoch=0, heartbeat_interval_ms=0
        )
    )


def undescribed_consumers(name: str, code: ErrorCode = NO_GROUP) -> Any:
    return consumer_groups.DescribedConsumerGroup(
        error_code=code,
        error_message=code.text,
        group_id=name,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def without_hidden_members(
    request: consumer_groups.ConsumerGroupDescribeRequest,
    response: consumer_groups.ConsumerGroupDescribeResponse,
    rights: Rights,
) -> Steps[None]:
    """A group whose members read a topic that the caller may not see is not described at all."""
    visible: list[Any] = []
    for one in response.groups:
        yield
        _, hidden = yield from split(
            _topics_of(one), lambda name: rights.on_topic(Operation.DESCRIBE, name)
        )
        visible.append(undescribed_consumers(one.group_id, NO_TOPIC) if hidden else one)
    response.groups = visible


def _topics_of(group: consumer_groups.DescribedConsumerGroup) -> Iterable[str]:
    for one in group.members:
        yield from one.subscribed_topic_names
        for assigned in (one.assignment, one.target_assignment):
            yield from (topic.topic_name for topic in assigned.topic_partitions)


# -- administration --------------------------------------------------------------------------------


def undescribed(name: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=NO_GROUP,
        group_id=name,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )


def undeleted(name: str) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=name, error_code=NO_GROUP)


def report_in_groups(
    request: DescribeGroupsRequest | consumer_groups.ConsumerGroupDescribeRequest,
    response: DescribeGroupsResponse | consumer_groups.ConsumerGroupDescribeResponse,
    rights: Rights,
) -> Steps[None]:
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = rights.operations(GROUP, group.group_id)
                yield


def without_hidden_groups(
    request: ListGroupsRequest, response: ListGroupsResponse, rights: Rights
) -> Steps[None]:
    if not rights.on_cluster(Operation.DESCRIBE):
        response.groups, _ = yield from split(
            response.groups, lambda one: rights.on_group(Operation.DESCRIBE, one.group_id)
        )


# -- offsets ---------------------------------------------------------------------------------------


def commit(request: group_offsets.OffsetCommitRequest, rights: Rights) -> Steps[Verdict | None]:
    answer = group_offsets.OffsetCommitResponse
    if not rights.on_group(Operation.READ, request.group_id):
        refusals = yield from listed(_uncommitted(one, NO_GROUP) for one in request.topics)
        return refused(answer(topics=refusals))
    allowed, denied = yield from split(
        request.topics, lambda one: rights.on_named_topic(Operation.READ, one.name, one.topic_id)
    )
    if not denied:
        return None
    refusals = yield from listed(_uncommitted(one, NO_TOPIC) for one in denied)
    return parted(request, "topics", allowed, refusals, answer, "topics")


def _uncommitted(topic: group_offsets.OffsetCommitRequestTopic, code: ErrorCode) -> Any:
    partitions = [
        group_offsets.OffsetCommitResponsePartition(
            partition_index=one.partition_index, error_code=code
        )
        for one in topic.partitions
    ]
    return group_offsets.OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def delete_offsets(
    request: group_offsets.OffsetDeleteRequest, rights: Rights
) -> Steps[Verdict | None]:
    if not rights.on_group(Operation.DELETE, request.group_id):
        return refused(group_offsets.OffsetDeleteResponse(error_code=NO_GROUP, topics=[]))
    return (yield from _delete_offsets(request, rights))


_delete_offsets = each(
    "topics",
    lambda one, rights: rights.on_topic(Operation.READ, one.name),
    lambda one: _undeleted_offsets(one),
    group_offsets.OffsetDeleteResponse,
    "topics",
)


def _undeleted_offsets(topic: group_offsets.OffsetDeleteRequestTopic) -> Any:
    partitions = [
        group_offsets.OffsetDeleteResponsePartition(
            partition_index=one.partition_index, error_code=NO_TOPIC
        )
        for one in topic.partitions
    ]
    return group_offsets.OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def fetch_offsets(
    request: group_offsets.OffsetFetchRequest, rights: Rights
) -> Steps[Verdict | None]:
    if rights.caller.version >= BATCHED_OFFSETS_FROM:
        return (yield from _fetch_of_groups(request, rights))
    answer, topics = group_offsets.OffsetFetchResponse, request.topics or ()
    if not rights.on_group(Operation.DESCRIBE, request.group_id):
        named = topics if rights.caller.version < GROUP_ERROR_FROM else ()
        refusals = yield from listed(_unfetched(one, NO_GROUP) for one in named)
        return refused(answer(error_code=NO_GROUP, topics=refusals))
    allowed, denied = yield from split(
        topics, lambda one: rights.on_topic(Operation.DESCRIBE, one.name)
    )
    if not denied:
        return None
    refusals = yield from listed(_unfetched(one, NO_TOPIC) for one in denied)
    return parted(request, "topics", allowed, refusals, answer, "topics")


def _unfetched(topic: group_offsets.OffsetFetchRequestTopic, code: ErrorCode) -> Any:
    partitions = [
        group_offsets.OffsetFetchResponsePartition(
            partition_index=one, committed_offset=NOWHERE, metadata="", error_code=code
        )
        for one in topic.partition_indexes
    ]
    return group_offsets.OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


def _fetch_of_groups(
    request: group_offsets.OffsetFetchRequest, rights: Rights
) -> Steps[Verdict | None]:
    """From version 8: many groups, each with its own topics."""
    allowed: list[Any] = []
    refusals: list[Any] = []
    hidden: dict[str, list[Any]] = {}
    for group in request.groups:
        yield
        if not rights.on_group(Operation.DESCRIBE, group.group_id):
            refusals.append(
                group_offsets.OffsetFetchResponseGroup(
                    group_id=group.group_id, topics=[], error_code=NO_GROUP
                )
            )
            continue
        seen, denied = yield from _parted_topics(group.topics, rights)
        hidden[group.group_id] = denied
        allowed.append(replace(group, topics=seen) if denied else group)
    if not refusals and not any(hidden.values()):
        return None
    verdict = parted(
        request, "groups", allowed, refusals, group_offsets.OffsetFetchResponse, "groups"
    )

    def finish(answer: Any | None) -> Any:
        whole_answer = verdict.finish(answer)
        for group in whole_answer.groups:
            group.topics = [*group.topics, *hidden.get(group.group_id, ())]
        return whole_answer

    return Verdict(verdict.left, finish)


def _parted_topics(topics: Sequence[Any] | None, rights: Rights) -> Steps[tuple[Any, list[Any]]]:
    if topics is None:
        return None, []
    seen, denied = yield from split(
        topics, lambda one: rights.on_named_topic(Operation.DESCRIBE, one.name, one.topic_id)
    )
    return seen, (yield from listed(_unfetched_of_group(one) for one in denied))


def _unfetched_of_group(topic: group_offsets.OffsetFetchRequestTopics) -> Any:
    partitions = [
        group_offsets.OffsetFetchResponsePartitions(
            partition_index=one, committed_offset=NOWHERE, metadata="", error_code=NO_TOPIC
        )
        for one in topic.partition_indexes
    ]
    return group_offsets.OffsetFetchResponseTopics(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def without_hidden_offsets(
    request: group_offsets.OffsetFetchRequest,
    response: group_offsets.OffsetFetchResponse,
    rights: Rights,
) -> Steps[None]:
    """A caller that asks for all offsets of a group gets those of topics that it may see."""
    if request.topics is None:
        response.topics, _ = yield from split(
            response.topics, lambda one: rights.on_topic(Operation.DESCRIBE, one.name)
        )
    everything = {one.group_id for one in request.groups if one.topics is None}
    for group in response.groups:
        yield
        if group.group_id in everything:
            group.topics, _ = yield from split(
                group.topics,
                lambda one: rights.on_named_topic(Operation.DESCRIBE, one.name, one.topic_id),
            )
