"""What a request names more than once is asked for once.

A name takes a few bytes in a request and its description may take megabytes in the answer, so an
answer per repetition would let a small request cost as much as its sender likes. Kafka's own broker
puts most of these lists into maps. So it is done here, once for all APIs, right after a request was
read: elements of a list that have the same names are one element, in the place of the first. Lists
in them are put together. Where nothing is in them, the last one counts.

`ANSWERED_EACH` are the lists in which repetitions stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from stratamq.wire.kafka.protocol.codec import Steps
from stratamq.wire.kafka.protocol.messages import (
    acls,
    cluster_admin,
    configs,
    consumer_groups,
    fetch,
    group_offsets,
    groups,
    groups_admin,
    lake,
    log_offsets,
    metadata,
    produce,
    quorum,
    quotas,
    sasl,
    topics,
    transactions,
    transactions_admin,
)
from stratamq.wire.kafka.protocol.source import STEP_ELEMENTS


class Named(NamedTuple):
    """A list whose elements differ by `key`; None where they are plain values."""

    field: str
    key: Callable[[Any], Any] | None
    within: tuple[Named, ...]


def named(field: str, *keys: str, within: Sequence[Named] = ()) -> Named:
    return Named(field, attrgetter(*keys) if keys else None, tuple(within))


_NUMBERS = [named("partitions")]
_INDEXES = [named("partition_indexes")]
_PARTITIONS = [named("partitions", "partition_index")]

NAMED: Mapping[type, Sequence[Named]] = {
    fetch.FetchRequest: [
        named("topics", "topic", "topic_id", within=[named("partitions", "partition")]),
        named("forgotten_topics_data", "topic", "topic_id", within=_NUMBERS),
    ],
    log_offsets.ListOffsetsRequest: [named("topics", "name", within=_PARTITIONS)],
    log_offsets.OffsetForLeaderEpochRequest: [
        named("topics", "topic", within=[named("partitions", "partition")])
    ],
    log_offsets.DeleteRecordsRequest: [named("topics", "name", within=_PARTITIONS)],
    metadata.MetadataRequest: [named("topics", "topic_id", "name")],
    metadata.DescribeTopicPartitionsRequest: [named("topics", "name")],
    configs.DescribeConfigsRequest: [
        named("resources", "resource_type", "resource_name", within=[named("configuration_keys")])
    ],
    configs.ListConfigResourcesRequest: [named("resource_types")],
    cluster_admin.DescribeLogDirsRequest: [named("topics", "topic", within=_NUMBERS)],
    cluster_admin.ElectLeadersRequest: [named("topic_partitions", "topic", within=_NUMBERS)],
    cluster_admin.ListPartitionReassignmentsRequest: [named("topics", "name", within=_INDEXES)],
    cluster_admin.AlterReplicaLogDirsRequest: [
        named("dirs", "path", within=[named("topics", "name", within=_NUMBERS)])
    ],
    quorum.UpdateFeaturesRequest: [named("feature_updates", "feature")],
    cluster_admin.AlterPartitionReassignmentsRequest: [named("topics", "name", within=_PARTITIONS)],
    groups.FindCoordinatorRequest: [named("coordinator_keys")],
    groups.LeaveGroupRequest: [named("members", "member_id", "group_instance_id")],
    groups_admin.DescribeGroupsRequest: [named("groups")],
    groups_admin.ListGroupsRequest: [named("states_filter"), named("types_filter")],
    groups_admin.DeleteGroupsRequest: [named("groups_names")],
    consumer_groups.ConsumerGroupDescribeRequest: [named("group_ids")],
    consumer_groups.ConsumerGroupHeartbeatRequest: [
        named("subscribed_topic_names"),
        named("topic_partitions", "topic_id", within=_NUMBERS),
    ],
    group_offsets.OffsetCommitRequest: [named("topics", "name", "topic_id", within=_PARTITIONS)],
    group_offsets.OffsetFetchRequest: [
        named("topics", "name", within=_INDEXES),
        named("groups", "group_id", within=[named("topics", "name", "topic_id", within=_INDEXES)]),
    ],
    group_offsets.OffsetDeleteRequest: [named("topics", "name", within=_PARTITIONS)],
    transactions.AddPartitionsToTxnRequest: [
        named(
            "transactions",
            *("transactional_id", "producer_id", "producer_epoch", "verify_only"),
            within=[named("topics", "name", within=_NUMBERS)],
        ),
        named("v3_and_below_topics", "name", within=_NUMBERS),
    ],
    transactions.TxnOffsetCommitRequest: [named("topics", "name", within=_PARTITIONS)],
    transactions.WriteTxnMarkersRequest: [
        named(
            "markers",
            *("producer_id", "producer_epoch", "transaction_result", "coordinator_epoch"),
            within=[named("topics", "name", within=_INDEXES)],
        )
    ],
    transactions_admin.DescribeProducersRequest: [named("topics", "name", within=_INDEXES)],
    transactions_admin.DescribeTransactionsRequest: [named("transactional_ids")],
    transactions_admin.ListTransactionsRequest: [
        named("state_filters"),
        named("producer_id_filters"),
    ],
    lake.DescribeLakeRequest: [named("topics", "name")],
    lake.FlushLakeRequest: [named("topics", "name")],
}

ANSWERED_EACH: Mapping[type, str] = {
    produce.ProduceRequest: "every batch is stored, or refused by itself",
    groups.JoinGroupRequest: "the order of protocols is a preference; nothing of them is answered",
    groups.SyncGroupRequest: "nothing of the assignments is answered but the caller's own",
    topics.CreateTopicsRequest: "a topic that is named twice is refused, once",
    topics.CreatePartitionsRequest: "a topic that is named twice is refused, once",
    topics.DeleteTopicsRequest: "a topic that is named twice is refused, once",
    configs.AlterConfigsRequest: "a resource that is named twice is refused, once",
    configs.IncrementalAlterConfigsRequest: "a resource that is named twice is refused, once",
    acls.CreateAclsRequest: "answers have no names: the client counts them",
    acls.DeleteAclsRequest: "answers have no names: the client counts them",
    quorum.DescribeQuorumRequest: "more than one partition is refused, once",
    quotas.DescribeClientQuotasRequest: "an entity type that is named twice is refused",
    quotas.AlterClientQuotasRequest: "each change is answered by itself, with its own bytes",
    sasl.DescribeUserScramCredentialsRequest: "a user that is named twice is refused, once",
    sasl.AlterUserScramCredentialsRequest: "a user that is named twice is refused, once",
    log_offsets.DeleteSelectedRecordsRequest: "each deletion is answered by itself, with its count",
    lake.CommitLakeRequest: "each commit is answered by itself, with its own bytes",
}
"""Requests with lists in which repetitions stay, and what keeps their answers small."""


def may_repeat(request: object) -> bool:
    """Whether any list has two elements: most requests name one thing."""
    for one in NAMED.get(type(request), ()):
        items = getattr(request, one.field)
        if not items:
            continue
        if len(items) > 1:
            return True
        for inner in one.within:
            if inner.within or len(getattr(items[0], inner.field) or ()) > 1:
                return True
    return False


def without_repeats(request: object) -> Steps[None]:
    """Make one of the elements that name the same thing, in place. In steps: it yields now and
    then."""
    for one in NAMED.get(type(request), ()):
        yield from _merge_field(request, one)


def _merge_field(owner: object, one: Named) -> Steps[None]:
    items = getattr(owner, one.field)
    if not items or (len(items) == 1 and not one.within):
        return
    if not one.within:
        found = dict(zip(items if one.key is None else map(one.key, items), items, strict=True))
    else:
        found = yield from _put_together(items, one)
        for at, item in enumerate(found.values()):
            if at % STEP_ELEMENTS == STEP_ELEMENTS - 1:
                yield
            for inner in one.within:
                yield from _merge_field(item, inner)
    if len(found) < len(items):
        setattr(owner, one.field, list(found.values()))


def _put_together(items: Sequence[Any], one: Named) -> Steps[dict[Any, Any]]:
    assert one.key is not None, "plain values have nothing within"
    found: dict[Any, Any] = {}
    for at, item in enumerate(items):
        if at % STEP_ELEMENTS == STEP_ELEMENTS - 1:
            yield
        first = found.setdefault(one.key(item), item)
        if first is not item:
            for inner in one.within:
                _extend(first, item, inner.field)
    return found


def _extend(first: Any, more: Any, field: str) -> None:
    """A list that is null stands for everything, and stays null."""
    here, there = getattr(first, field), getattr(more, field)
    if here is None or there is None:
        setattr(first, field, None)
    else:
        here += there
