"""ConsumerGroupHeartbeat."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.errors import coordinator_code
from stratamq.broker.kafka.groups.consumer.assignors import ASSIGNORS
from stratamq.broker.kafka.groups.consumer.group import over_limit
from stratamq.broker.kafka.groups.consumer.members import (
    JOINING,
    LEAVING_FOR_NOW,
    HeartbeatReply,
    HeartbeatReport,
    Partition,
    Partitions,
    Subscriber,
)
from stratamq.broker.kafka.groups.consumer.regex import BadPattern, compile_pattern
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.limits import GroupLimit, weight
from stratamq.broker.kafka.groups.migration import consumer_heartbeat, no_group
from stratamq.model.entropy import Entropy, random_uuid
from stratamq.model.errors import StrataError
from stratamq.model.types import TopicId
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

OWN_ID_FROM = 1
"""From this version on clients make their member ids themselves."""

PARTITION_BYTES = 16
"""Of what a member says it owns, which is not stored. With the usual limit, 65,000 fit."""


class ConsumerApi:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

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
            assignment=None
            if assigned is None
            else Assignment(topic_partitions=by_topic_id(assigned)),
        )

    async def _order(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> HeartbeatReply:
        if _weight(request) > self._coordinator.limits.member_bytes_max:
            return over_limit(request.member_id, GroupLimit.MEMBER)
        report = _report(request, caller, self._coordinator.services.entropy)
        try:
            return complaint(request.group_id, report) or await self._heartbeat(
                request.group_id, report
            )
        except StrataError as error:
            return HeartbeatReply(
                error=coordinator_code(error), message=str(error), member_id=report.member_id
            )

    async def _heartbeat(self, name: str, report: HeartbeatReport) -> HeartbeatReply:
        joins = report.epoch == JOINING
        state = self._coordinator.find(name)
        if state is None and joins:
            state = self._coordinator.find_or_create(name)
        if state is None:
            return no_group(report)

        def act(now_ms: int) -> HeartbeatReply:
            topics = self._coordinator.topics()
            state.group, order = consumer_heartbeat(state.group, now_ms, report, topics)
            return order

        return await state.run(act)


def _weight(request: ConsumerGroupHeartbeatRequest) -> int:
    """About the memory that the request takes as a report."""
    owned = sum(PARTITION_BYTES * len(one.partitions) for one in request.topic_partitions or ())
    return owned + weight(*(request.subscribed_topic_names or ()))


def _report(
    request: ConsumerGroupHeartbeatRequest, caller: Caller, entropy: Entropy
) -> HeartbeatReport:
    made_here = caller.version < OWN_ID_FROM and request.member_epoch == JOINING
    names, owned = request.subscribed_topic_names, request.topic_partitions
    rebalance_ms = request.rebalance_timeout_ms
    return HeartbeatReport(
        member_id=request.member_id or (str(random_uuid(entropy)) if made_here else ""),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=caller.client_id,
        client_host=f"/{caller.host}",
        reader=Subscriber(caller.principal, caller.host),
        rebalance_ms=None if rebalance_ms == -1 else rebalance_ms,
        names=None if names is None else frozenset(names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset(
            Partition(TopicId(one.topic_id.hex()), number)
            for one in owned
            for number in one.partitions
        ),
    )


def complaint(group: str, report: HeartbeatReport) -> HeartbeatReply | None:
    """The refusal of a heartbeat that makes no sense in any group, or None."""
    text = _nonsense(group, report)
    if text is not None:
        return _refusal(report, ErrorCode.INVALID_REQUEST, text)
    if report.assignor is not None and report.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        return _refusal(
            report, ErrorCode.UNSUPPORTED_ASSIGNOR, f"{report.assignor!r} is not one of {known}"
        )
    try:
        compile_pattern(report.regex or "")
    except BadPattern as error:
        return _refusal(report, ErrorCode.INVALID_REGULAR_EXPRESSION, str(error))
    return None


def _nonsense(group: str, report: HeartbeatReport) -> str | None:
    if not group:
        return "GroupId can't be empty."
    if report.member_id == "":
        return "MemberId can't be empty."
    if report.instance_id == "":
        return "InstanceId can't be empty."
    if report.rack_id == "":
        return "RackId can't be empty."
    if report.epoch == LEAVING_FOR_NOW and report.instance_id is None:
        return "InstanceId can't be null when a member leaves for a while."
    if report.epoch < LEAVING_FOR_NOW:
        return f"MemberEpoch {report.epoch} is invalid."
    if report.epoch != JOINING:
        return None
    if report.rebalance_ms is None:
        return "RebalanceTimeoutMs must be provided in first request."
    if report.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if report.names is None and report.regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be provided."
    return None


def _refusal(report: HeartbeatReport, error: ErrorCode, text: str) -> HeartbeatReply:
    return HeartbeatReply(error=error, message=text, member_id=report.member_id)


def by_topic_id(partitions: Partitions) -> Sequence[TopicPartitions]:
    topics: dict[TopicId, list[int]] = {}
    for one in sorted(partitions):
        topics.setdefault(one.topic_id, []).append(one.number)
    return [
        TopicPartitions(topic_id=bytes.fromhex(topic_id), partitions=numbers)
        for topic_id, numbers in topics.items()
    ]
