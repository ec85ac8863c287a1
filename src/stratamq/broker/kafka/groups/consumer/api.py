"""ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.groups.cell import Cell
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup, over_limit
from stratamq.broker.kafka.groups.consumer.members import (
    JOINING,
    Member,
    Order,
    Partition,
    Partitions,
    Reader,
    Report,
)
from stratamq.broker.kafka.groups.consumer.validation import complaint
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.failures import group_code
from stratamq.broker.kafka.groups.limits import Limit, weight
from stratamq.broker.kafka.groups.migration import consumer_heartbeat, no_group
from stratamq.broker.kafka.groups.rights import GROUP_OPERATIONS
from stratamq.model.entropy import Entropy, random_uuid
from stratamq.model.errors import StrataError, TopicNotFound
from stratamq.model.types import TopicId
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.common import NOT_ASKED
from stratamq.wire.kafka.protocol.messages.consumer_groups import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupMember,
    ConsumerGroupMemberAssignment,
    DescribedConsumerGroup,
    NamedTopicPartitions,
    TopicPartitions,
)

OWN_ID_FROM = 1
"""From this version on clients make their member ids themselves."""

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1

PARTITION_BYTES = 16
"""Of what a member says it owns, which is not kept. With the usual limit, 65,000 fit."""


class ConsumerApi:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    # -- heartbeat -----------------------------------------------------------------------------

    async def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerGroupHeartbeatResponse:
        order = await self._order(request, caller)
        self._coordinator.warn(request.group_id, order.limit)
        failed = order.error is not ErrorCode.NONE
        interval_ms = self._coordinator.limits_of(request.group_id).consumer_heartbeat_ms
        assigned = order.assigned
        return ConsumerGroupHeartbeatResponse(
            error_code=order.error,
            error_message=order.message,
            member_id=None if failed else order.member_id,
            member_epoch=order.epoch,
            heartbeat_interval_ms=0 if failed else interval_ms,
            assignment=None if assigned is None else Assignment(topic_partitions=_by_id(assigned)),
        )

    async def _order(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Order:
        if _weight(request) > self._coordinator.limits.member_bytes_max:
            return over_limit(request.member_id, Limit.MEMBER)
        report = _report(request, caller, self._coordinator.services.entropy)
        try:
            return complaint(request.group_id, report) or await self._heartbeat(
                request.group_id, report
            )
        except StrataError as error:
            return Order(error=group_code(error), message=str(error), member_id=report.member_id)

    async def _heartbeat(self, name: str, report: Report) -> Order:
        joins = report.epoch == JOINING
        cell = self._coordinator.find(name)
        if cell is None and joins:
            cell = self._coordinator.find_or_make(name)
        if cell is None:
            return no_group(report)
        found: Cell = cell

        def act(now_ms: int) -> Order:
            topics = self._coordinator.topics()
            found.machine, order = consumer_heartbeat(found.machine, now_ms, report, topics)
            return order

        return await found.run(act)

    # -- describe ------------------------------------------------------------------------------

    async def describe(
        self, request: ConsumerGroupDescribeRequest, caller: Caller
    ) -> ConsumerGroupDescribeResponse:
        asked = request.include_authorized_operations
        groups = [self._described(name, asked) for name in dict.fromkeys(request.group_ids)]
        return ConsumerGroupDescribeResponse(groups=groups)

    def _described(self, name: str, asked: bool) -> DescribedConsumerGroup:
        cell = self._coordinator.find(name)
        if cell is None or not isinstance(cell.machine, ConsumerGroup):
            return DescribedConsumerGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {name} not found.",
                group_id=name,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=[],
            )
        group = cell.machine
        return DescribedConsumerGroup(
            group_id=name,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.target.epoch,
            assignor_name=group.target.assignor,
            members=[self._member(group, member) for member in group.members.values()],
            authorized_operations=GROUP_OPERATIONS if asked else NOT_ASKED,
        )

    def _member(self, group: ConsumerGroup, member: Member) -> ConsumerGroupMember:
        target = group.target.of(member.member_id)
        return ConsumerGroupMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.wants.names),
            subscribed_topic_regex=member.wants.regex or None,
            assignment=self._named(member.assigned),
            target_assignment=self._named(target),
            member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
        )

    def _named(self, partitions: Partitions) -> ConsumerGroupMemberAssignment:
        named = []
        for one in _by_id(partitions):
            try:
                topic_id = TopicId(one.topic_id.hex())
                name = self._coordinator.services.broker_cache.topic_by_id(topic_id).name
            except TopicNotFound:
                continue  # deleted; its readers will hear of it
            named.append(
                NamedTopicPartitions(
                    topic_id=one.topic_id, topic_name=name, partitions=one.partitions
                )
            )
        return ConsumerGroupMemberAssignment(topic_partitions=named)


def _weight(request: ConsumerGroupHeartbeatRequest) -> int:
    """About the memory that the request takes as a report."""
    owned = sum(PARTITION_BYTES * len(one.partitions) for one in request.topic_partitions or ())
    return owned + weight(*(request.subscribed_topic_names or ()))


def _report(request: ConsumerGroupHeartbeatRequest, caller: Caller, entropy: Entropy) -> Report:
    made_here = caller.version < OWN_ID_FROM and request.member_epoch == JOINING
    names, owned = request.subscribed_topic_names, request.topic_partitions
    rebalance_ms = request.rebalance_timeout_ms
    return Report(
        member_id=request.member_id or (str(random_uuid(entropy)) if made_here else ""),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=caller.client_id,
        client_host=f"/{caller.host}",
        reader=Reader(caller.principal, caller.host),
        rebalance_ms=None if rebalance_ms == -1 else rebalance_ms,
        names=None if names is None else frozenset(names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owned is None else _partitions(owned),
    )


def _partitions(topics: Iterable[TopicPartitions]) -> Partitions:
    return frozenset(
        Partition(TopicId(one.topic_id.hex()), number)
        for one in topics
        for number in one.partitions
    )


def _by_id(partitions: Partitions) -> Sequence[TopicPartitions]:
    topics: dict[TopicId, list[int]] = {}
    for one in sorted(partitions):
        topics.setdefault(one.topic_id, []).append(one.number)
    return [
        TopicPartitions(topic_id=bytes.fromhex(topic_id), partitions=numbers)
        for topic_id, numbers in topics.items()
    ]
