"""Requests that one connection sends in one piece: each sees the effects of those before it, and
none sees the effects of those after it. Topics are synced, so that a write takes its time."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from stratamq.model.record import Record
from stratamq.wire.kafka.protocol import APIS, NO_UUID, decode_response, encode_request
from stratamq.wire.kafka.protocol.messages import (
    configs,
    fetch,
    group_offsets,
    groups_admin,
    log_offsets,
    metadata,
    produce,
    quotas,
    topics,
    transactions,
)
from stratamq.wire.kafka.protocol.schema import message_of
from stratamq.wire.kafka.records import encode_batch
from tests.clients.node import Node, running
from tests.waiting import wait_until

SECONDS_MAX = 30
LATEST, EARLIEST = -1, -2
FOREVER_MS = 600_000
NO_TOPIC = 3

_numbers = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    flags = ("--auto-create-topics-enable", "false", "--log-level", "warning")
    with running(tmp_path_factory.mktemp("pipelined"), *flags) as node:
        yield node
        assert "Traceback" not in node.logged()
        assert node.end() == 0, node.logged()


class Wire:
    """A connection that sends many requests in one piece."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer

    def send(self, *requests: object) -> None:
        self._peer.sendall(b"".join(itertools.chain(*map(encoded, requests))))

    def answer(self, request: object) -> Any:
        key = message_of(type(request)).key
        (size,) = struct.unpack(">i", self._exactly(4))
        return decode_response(self._exactly(size), key, version_of(request)).body

    def ask(self, *requests: object) -> list[Any]:
        self.send(*requests)
        return [self.answer(one) for one in requests if is_answered(one)]

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._peer.recv(count - len(data))
            assert part, "closed by the node"
            data += part
        return data


def version_of(request: object) -> int:
    """The newest that names topics by their names."""
    by_id_since = {0: 13, 1: 13, 8: 10, 9: 10}
    api = APIS[message_of(type(request)).key]
    return by_id_since.get(api.key, api.versions.last + 1) - 1


def encoded(request: object) -> Any:
    return encode_request(request, version_of(request), 1, "pipelined")


def is_answered(request: object) -> bool:
    return not (isinstance(request, produce.ProduceRequest) and request.acks == 0)


@contextlib.contextmanager
def connected(node: Node) -> Iterator[Wire]:
    with socket.create_connection((node.host, node.port), SECONDS_MAX) as peer:
        yield Wire(peer)


@pytest.fixture
def wire(node: Node) -> Iterator[Wire]:
    with connected(node) as wire:
        yield wire


@pytest.fixture
def topic(wire: Wire) -> str:
    name = f"topic-{next(_numbers)}"
    wire.ask(created(name))
    return name


# -- requests --------------------------------------------------------------------------------------


def created(topic: str) -> Any:
    wanted = topics.CreatableTopic(
        name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    return topics.CreateTopicsRequest(topics=[wanted])


def deleted(topic: str) -> Any:
    state = topics.DeleteTopicState(name=topic, topic_id=NO_UUID)
    return topics.DeleteTopicsRequest(topics=[state], timeout_ms=10_000)


def widened(topic: str) -> Any:
    wanted = topics.CreatePartitionsTopic(name=topic, count=3, assignments=None)
    return topics.CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000, validate_only=False)


def described(topic: str) -> Any:
    wanted = metadata.MetadataRequestTopic(name=topic)
    return metadata.MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)


def produced(topic: str, acks: int = -1, **options: Any) -> Any:
    batch = encode_batch([Record(value=b"a")], now_ms=1_700_000_000_000, **options)
    part = produce.PartitionProduceData(index=0, records=batch)
    data = produce.TopicProduceData(name=topic, partition_data=[part])
    named = "t-" + topic if options else None
    return produce.ProduceRequest(
        transactional_id=named, acks=acks, timeout_ms=10_000, topic_data=[data]
    )


def fetched(topic: str, offset: int = 0, wait_ms: int = 0, **options: Any) -> Any:
    part = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    wanted = fetch.FetchTopic(topic=topic, partitions=[part])
    return fetch.FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[wanted], **options)


def listed(topic: str, timestamp: int = LATEST) -> Any:
    part = log_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    wanted = log_offsets.ListOffsetsTopic(name=topic, partitions=[part])
    return log_offsets.ListOffsetsRequest(replica_id=-1, topics=[wanted])


def emptied(topic: str) -> Any:
    part = log_offsets.DeleteRecordsPartition(partition_index=0, offset=-1)
    wanted = log_offsets.DeleteRecordsTopic(name=topic, partitions=[part])
    return log_offsets.DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000)


def committed(topic: str, offset: int = 7) -> Any:
    part = group_offsets.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    wanted = group_offsets.OffsetCommitRequestTopic(name=topic, partitions=[part])
    return group_offsets.OffsetCommitRequest(group_id=topic, member_id="", topics=[wanted])


def looked_up(topic: str) -> Any:
    wanted = group_offsets.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    group = group_offsets.OffsetFetchRequestGroup(group_id=topic, topics=[wanted])
    return group_offsets.OffsetFetchRequest(groups=[group])


def forgotten(topic: str) -> Any:
    part = group_offsets.OffsetDeleteRequestPartition(partition_index=0)
    wanted = group_offsets.OffsetDeleteRequestTopic(name=topic, partitions=[part])
    return group_offsets.OffsetDeleteRequest(group_id=topic, topics=[wanted])


def group_deleted(group: str) -> Any:
    return groups_admin.DeleteGroupsRequest(groups_names=[group])


def configured(topic: str) -> Any:
    config = configs.IncrementalAlterableConfig(
        name="retention.ms", config_operation=0, value="4711"
    )
    wanted = configs.IncrementalAlterConfigsResource(
        resource_type=2, resource_name=topic, configs=[config]
    )
    return configs.IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)


def config(topic: str) -> Any:
    wanted = configs.DescribeConfigsResource(
        resource_type=2, resource_name=topic, configuration_keys=["retention.ms"]
    )
    return configs.DescribeConfigsRequest(resources=[wanted])


def limited(user: str) -> Any:
    entity = quotas.QuotaEntity(entity_type="user", entity_name=user)
    op = quotas.QuotaOperation(key="producer_byte_rate", value=1e9, remove=False)
    entry = quotas.QuotaAlteration(entity=[entity], ops=[op])
    return quotas.AlterClientQuotasRequest(entries=[entry], validate_only=False)


def limits(user: str) -> Any:
    wanted = quotas.QuotaFilterComponent(entity_type="user", match_type=0, match=user)
    return quotas.DescribeClientQuotasRequest(components=[wanted], strict=True)


# -- answers ---------------------------------------------------------------------------------------


def offset_listed(body: Any) -> int:
    return int(body.topics[0].partitions[0].offset)


def offset_committed(body: Any) -> int:
    return int(body.groups[0].topics[0].partitions[0].committed_offset)


def records(body: Any) -> int:
    return len(body.responses[0].partitions[0].records or b"")


def code_of_topic(body: Any) -> int:
    return int(body.topics[0].error_code)


def partition_count(body: Any) -> int:
    return len(body.topics[0].partitions)


def stored_at(body: Any) -> int:
    return int(body.responses[0].partition_responses[0].base_offset)


def config_value(body: Any) -> str:
    return str(body.results[0].configs[0].value)


def limit_count(body: Any) -> int:
    return len(body.entries or ())


class Pair(NamedTuple):
    """`then` is sent right after `first`, and shows `seen` of its answer."""

    first: Callable[[str], Any]
    then: Callable[[str], Any]
    seen: Callable[[Any], Any]
    after: Any
    before: tuple[Callable[[str], Any], ...] = ()


def unacknowledged(topic: str) -> Any:
    return produced(topic, acks=0)


def start_listed(topic: str) -> Any:
    return listed(topic, EARLIEST)


def committed_later(topic: str) -> Any:
    return committed(topic, 8)


SEES = {
    "OffsetCommit, OffsetFetch": Pair(committed, looked_up, offset_committed, 7),
    "OffsetCommit twice, OffsetFetch": Pair(
        committed_later, looked_up, offset_committed, 8, (committed,)
    ),
    "OffsetDelete, OffsetFetch": Pair(forgotten, looked_up, offset_committed, -1, (committed,)),
    "DeleteGroups, OffsetFetch": Pair(group_deleted, looked_up, offset_committed, -1, (committed,)),
    "Produce, ListOffsets": Pair(produced, listed, offset_listed, 1),
    "Produce with acks=0, ListOffsets": Pair(unacknowledged, listed, offset_listed, 1),
    "Produce, Fetch": Pair(produced, fetched, lambda body: records(body) > 0, True),
    "Produce with acks=0, Fetch": Pair(
        unacknowledged, fetched, lambda body: records(body) > 0, True
    ),
    "Produce, Produce": Pair(produced, produced, stored_at, 1),
    "Produce with acks=0, Produce": Pair(unacknowledged, produced, stored_at, 1),
    "DeleteRecords, ListOffsets": Pair(emptied, start_listed, offset_listed, 1, (produced,)),
    "DeleteRecords, Fetch": Pair(
        emptied, fetched, lambda body: body.responses[0].partitions[0].error_code, 1, (produced,)
    ),
    "Produce, DeleteRecords": Pair(
        produced, emptied, lambda body: body.topics[0].partitions[0].low_watermark, 1
    ),
    "DeleteTopics, Metadata": Pair(deleted, described, code_of_topic, NO_TOPIC),
    "DeleteTopics, CreateTopics": Pair(deleted, created, code_of_topic, 0),
    "DeleteTopics, Produce": Pair(
        deleted,
        produced,
        lambda body: body.responses[0].partition_responses[0].error_code,
        NO_TOPIC,
    ),
    "CreatePartitions, Metadata": Pair(widened, described, partition_count, 3),
    "IncrementalAlterConfigs, DescribeConfigs": Pair(configured, config, config_value, "4711"),
    "AlterClientQuotas, DescribeClientQuotas": Pair(limited, limits, limit_count, 1),
}


@pytest.mark.parametrize("name", SEES)
def test_a_request_sees_the_one_before_it(wire: Wire, topic: str, name: str) -> None:
    first, then, seen, after, before = SEES[name]
    requests = [make(topic) for make in (*before, first, then)]
    assert seen(wire.ask(*requests)[-1]) == after


SEES_NOT = {
    "ListOffsets, Produce": (listed, produced, offset_listed, 0),
    "Fetch, Produce": (fetched, produced, records, 0),
    "OffsetFetch, OffsetCommit": (looked_up, committed, offset_committed, -1),
    "Metadata, CreatePartitions": (described, widened, partition_count, 1),
    "Metadata, DeleteTopics": (described, deleted, code_of_topic, 0),
    "DescribeConfigs, IncrementalAlterConfigs": (config, configured, config_value, "604800000"),
    "Produce, DeleteTopics": (produced, deleted, stored_at, 0),
}


@pytest.mark.parametrize("name", SEES_NOT)
def test_a_request_does_not_see_the_one_after_it(wire: Wire, topic: str, name: str) -> None:
    first, then, seen, before = SEES_NOT[name]
    assert seen(wire.ask(first(topic), then(topic))[0]) == before


def test_many_requests_of_all_sorts_in_one_piece(wire: Wire, topic: str) -> None:
    """Rounds of changes and reads: every read shows exactly the rounds before it."""
    rounds = range(1, 21)
    requests = [
        request
        for number in rounds
        for request in (
            produced(topic, acks=number % 2),
            committed(topic, number),
            listed(topic),
            looked_up(topic),
        )
    ]
    answers = iter(wire.ask(*requests))
    for number in rounds:
        if number % 2:
            assert stored_at(next(answers)) == number - 1
        next(answers)
        assert offset_listed(next(answers)) == number
        assert offset_committed(next(answers)) == number


def test_a_transaction_in_one_piece(wire: Wire, topic: str) -> None:
    (begun,) = wire.ask(
        transactions.InitProducerIdRequest(
            transactional_id="t-" + topic, transaction_timeout_ms=60_000
        )
    )
    who = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    added = transactions.AddPartitionsToTxnTopic(name=topic, partitions=[0])
    *_, stored, ended, read = wire.ask(
        transactions.AddPartitionsToTxnRequest(
            transactions=[
                transactions.AddPartitionsToTxnTransaction(
                    transactional_id="t-" + topic, verify_only=False, topics=[added], **who
                )
            ]
        ),
        produced(topic, **who, base_sequence=0, transactional=True),
        transactions.EndTxnRequest(transactional_id="t-" + topic, committed=True, **who),
        fetched(topic, isolation_level=1),
    )
    assert stored_at(stored) == 0
    assert ended.error_code == 0
    assert records(read) > 0


# -- a Fetch that waits ----------------------------------------------------------------------------


def test_a_waiting_fetch_does_not_hold_up_a_produce(wire: Wire, topic: str) -> None:
    """Which ends its waiting: were it held up, neither would ever be answered."""
    waiting, write = wire.ask(fetched(topic, wait_ms=FOREVER_MS), produced(topic))
    assert records(waiting) > 0
    assert stored_at(write) == 0


@pytest.mark.parametrize("make", [committed, listed, described], ids=lambda make: make.__name__)
def test_a_waiting_fetch_does_not_hold_up_what_cannot_see_it(
    wire: Wire, topic: str, make: Callable[[str], Any]
) -> None:
    """The Produce comes last, after the others were answered within the node."""
    waiting, _, write = wire.ask(fetched(topic, wait_ms=FOREVER_MS), make(topic), produced(topic))
    assert records(waiting) > 0
    assert stored_at(write) == 0


def test_a_fetch_waits_beside_a_waiting_fetch(node: Node, wire: Wire, topic: str) -> None:
    other = f"{topic}-other"
    wire.ask(created(other))
    first, second = fetched(topic, wait_ms=FOREVER_MS), fetched(other, wait_ms=FOREVER_MS)
    wire.send(first, second)
    with connected(node) as writer:
        writer.ask(produced(other), produced(topic))
    assert records(wire.answer(first)) > 0
    assert records(wire.answer(second)) > 0


def test_what_a_waiting_fetch_could_see_waits_for_it(node: Node, wire: Wire, topic: str) -> None:
    """DeleteRecords would make it fail."""
    waiting, emptying = fetched(topic, wait_ms=FOREVER_MS), emptied(topic)
    wire.send(waiting, emptying)
    with connected(node) as writer:
        writer.ask(produced(topic))
    assert records(wire.answer(waiting)) > 0
    assert wire.answer(emptying).topics[0].partitions[0].low_watermark == 1


def test_a_session_of_fetches_in_one_piece(wire: Wire, topic: str) -> None:
    """Each says only what the one before has not said."""
    (opened,) = wire.ask(fetched(topic, session_epoch=0))
    of_session = {"session_id": opened.session_id, "max_wait_ms": 0, "min_bytes": 1, "topics": []}
    write, first, second = wire.ask(
        produced(topic),
        fetch.FetchRequest(**of_session, session_epoch=1),
        fetch.FetchRequest(**of_session, session_epoch=2),
    )
    assert stored_at(write) == 0
    assert records(first) > 0
    assert second.error_code == 0


# -- the end of a connection -----------------------------------------------------------------------


def test_writes_that_nobody_waits_for_are_stored_though_their_connection_ends(
    node: Node, wire: Wire, topic: str
) -> None:
    with connected(node) as leaving:
        leaving.send(committed(topic), *[produced(topic, acks=0)] * 10)
    wait_until(lambda: offset_listed(wire.ask(listed(topic))[0]) == 10, "ten records")


# -- librdkafka ------------------------------------------------------------------------------------


def test_librdkafka_reads_what_it_committed_a_moment_ago(node: Node, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": topic})
    place = TopicPartition(topic, 0)
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)  # connected
        for offset in range(1, 31):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=True)
            assert consumer.committed([place], timeout=SECONDS_MAX)[0].offset == offset
    finally:
        consumer.close()
