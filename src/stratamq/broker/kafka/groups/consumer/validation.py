"""Whether a heartbeat makes sense at all, before any group is looked at."""

from __future__ import annotations

from stratamq.broker.kafka.groups.consumer.assignors import ASSIGNORS
from stratamq.broker.kafka.groups.consumer.members import JOINING, LEAVING_FOR_NOW, Order, Report
from stratamq.broker.kafka.groups.consumer.regex import BadPattern, compile_pattern
from stratamq.wire.kafka.protocol import ErrorCode


def complaint(group: str, report: Report) -> Order | None:
    """The refusal, or None."""
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


def _nonsense(group: str, report: Report) -> str | None:
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
    return _half_a_join(report) if report.epoch == JOINING else None


def _half_a_join(report: Report) -> str | None:
    if report.rebalance_ms is None:
        return "RebalanceTimeoutMs must be provided in first request."
    if report.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if report.names is None and report.regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be provided."
    return None


def _refusal(report: Report, error: ErrorCode, text: str) -> Order:
    return Order(error=error, message=text, member_id=report.member_id)
