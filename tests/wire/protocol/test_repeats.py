"""What a request names several times is asked for once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stratamq.wire.kafka.protocol import APIS, NO_UUID, decode_request, encode_request
from stratamq.wire.kafka.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from stratamq.wire.kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from stratamq.wire.kafka.protocol.messages.groups import FindCoordinatorRequest
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratamq.wire.kafka.protocol.repeats import ANSWERED_EACH, NAMED, Named
from stratamq.wire.kafka.protocol.schema import Array, fields_of
from tests.waiting import every

REQUESTS = {api.request for api in APIS.values()}


def arrays(struct_type: type) -> dict[str, Any]:
    return {
        field.name: field.kind.element
        for field in fields_of(struct_type)
        if isinstance(field.kind, Array)
    }


def test_every_list_of_every_request_has_a_rule() -> None:
    with_lists = {request for request in REQUESTS if arrays(request)}
    assert with_lists == set(NAMED) | set(ANSWERED_EACH)
    assert not set(NAMED) & set(ANSWERED_EACH)
    for request, rules in NAMED.items():
        assert {rule.field for rule in rules} == set(arrays(request)), request.__name__


def rules_within(struct_type: type, rules: Any) -> Iterator[tuple[type, Named]]:
    for rule in rules:
        element = arrays(struct_type)[rule.field]
        yield element, rule
        yield from rules_within(element, rule.within)


@pytest.mark.parametrize("request_type", NAMED, ids=lambda one: one.__name__)
def test_rules_fit_the_messages(request_type: type) -> None:
    for element, rule in every(rules_within(request_type, NAMED[request_type])):
        if not isinstance(element, type):
            assert rule.key is None
            continue
        blank = element(**{field.name: field.name for field in fields_of(element)})
        assert rule.key is not None
        rule.key(blank)
        lists = set(arrays(element)) - {"replicas"}  # of a move: taken as they come
        assert {inner.field for inner in rule.within} == lists


def taken(request: object, version: int) -> Any:
    """As a node takes it from the wire."""
    return decode_request(b"".join(encode_request(request, version, 1))[4:]).body


def test_names_and_ids() -> None:
    one, other = bytes([1]) * 16, bytes([2]) * 16
    names = [("a", NO_UUID), ("b", NO_UUID), ("a", NO_UUID), (None, one), (None, other)]
    topics = [MetadataRequestTopic(name=name, topic_id=uuid) for name, uuid in names * 3]
    asked = taken(MetadataRequest(topics=topics), 12)
    assert [(one.name, one.topic_id) for one in asked.topics] == [
        *(("a", NO_UUID), ("b", NO_UUID), (None, one), (None, other))
    ]


def test_plain_values() -> None:
    asked = taken(FindCoordinatorRequest(coordinator_keys=["g", "h", "g", "g"]), 6)
    assert asked.coordinator_keys == ["g", "h"]


def test_partitions_of_the_same_topic_are_put_together_and_the_last_counts() -> None:
    def wanted(partition: int, offset: int) -> FetchPartition:
        return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1)

    topics = [
        FetchTopic(topic="a", partitions=[wanted(0, 1), wanted(1, 1)]),
        FetchTopic(topic="b", partitions=[wanted(0, 1)]),
        FetchTopic(topic="a", partitions=[wanted(2, 2), wanted(0, 7)]),
    ]
    asked = taken(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 12)
    assert [one.topic for one in asked.topics] == ["a", "b"]
    found = [(one.partition, one.fetch_offset) for one in asked.topics[0].partitions]
    assert found == [(0, 7), (1, 1), (2, 2)]


def test_three_levels() -> None:
    def topic(name: str, *numbers: int) -> OffsetFetchRequestTopics:
        return OffsetFetchRequestTopics(name=name, partition_indexes=numbers)

    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=[topic("a", 1, 1), topic("b", 1)]),
        OffsetFetchRequestGroup(group_id="h", topics=[topic("a", 5)]),
        OffsetFetchRequestGroup(group_id="g", topics=[topic("a", 2, 1)]),
    ]
    first, second = taken(OffsetFetchRequest(groups=groups), 9).groups
    assert (first.group_id, second.group_id) == ("g", "h")
    assert [(one.name, one.partition_indexes) for one in first.topics] == [
        ("a", [1, 2]),
        ("b", [1]),
    ]


@pytest.mark.parametrize("keys", [(["x"], None), (None, ["x"]), (None, None)])
def test_everything_and_something_is_everything(keys: tuple[list[str] | None, ...]) -> None:
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=some)
        for some in keys
    ]
    (one,) = taken(DescribeConfigsRequest(resources=resources), 4).resources
    assert one.configuration_keys is None
