"""Small requests that ask for much work, a long answer, or something that stays."""

from __future__ import annotations

from stratamq.model.record import Record
from stratamq.wire.kafka.protocol import APIS, ErrorCode
from stratamq.wire.kafka.protocol.messages.cluster_admin import DescribeLogDirsRequest
from stratamq.wire.kafka.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from stratamq.wire.kafka.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from stratamq.wire.kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from stratamq.wire.kafka.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from stratamq.wire.kafka.protocol.messages.groups_admin import DescribeGroupsRequest
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from stratamq.wire.kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from stratamq.wire.kafka.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from stratamq.wire.kafka.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    InitProducerIdRequest,
)
from stratamq.wire.kafka.protocol.messages.transactions_admin import (
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from stratamq.wire.kafka.records import encode_batch
from tests.attack.bombs import produce, small
from tests.attack.hostile.target import (
    MIB,
    STORED,
    STORED_PARTITIONS,
    WIDE,
    WIDE_PARTITIONS,
    Target,
    attack,
    refused,
)
from tests.attack.raw import Closed
from tests.attack.repeating import Requests

MANY = 20_000
JOIN_VERSION = 3
"""The last in which a member need not come twice."""


# -- names -----------------------------------------------------------------------------------------

LARGEST_FRAME_BYTES = 256 << 10


@attack
def repeated_elements(target: Target) -> None:
    """Of some API's list; tests/attack/test_repeats.py asks for all of them."""
    api = target.chance.choice(list(APIS.values()))
    version = target.chance.randint(*api.versions)
    requests = Requests(api, version, WIDE, target.wide_id)
    if paths := requests.lists():
        frame_bytes = target.chance.choice((8 << 10, 64 << 10, LARGEST_FRAME_BYTES))
        request = requests.repeated(target.chance.choice(paths), frame_bytes)
        try:
            with target.connected() as client:
                assert len(client.ask(request, version)) < 32 * MIB
        except Closed:  # elements of a single byte: more than kafka.request.elements.max
            assert frame_bytes == LARGEST_FRAME_BYTES, f"{api.name} v{version} was not answered"


@attack
def names_without_topics(target: Target) -> None:
    names = [f"none-{number}" for number in range(MANY)]
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    assert len(target.ask(request).topics) == MANY
    groups = target.ask(DescribeGroupsRequest(groups=names, include_authorized_operations=True))
    assert len(groups.groups) == MANY
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
        for name in names
    ]
    assert len(target.ask(DescribeConfigsRequest(resources=resources)).results) == MANY


@attack
def everything_there_is(target: Target) -> None:
    for request in (
        MetadataRequest(topics=None, include_topic_authorized_operations=True),
        DescribeLogDirsRequest(topics=None),
        DescribeProducersRequest(
            topics=[
                DescribeProducersTopic(name=WIDE, partition_indexes=range(WIDE_PARTITIONS)),
                DescribeProducersTopic(name=STORED, partition_indexes=range(STORED_PARTITIONS)),
            ]
        ),
    ):
        with target.connected() as client:
            assert client.ask(request)


@attack
def very_many_partitions_in_a_request(target: Target) -> None:
    batch = small(b"x")
    parts = [PartitionProduceData(index=index, records=batch) for index in range(WIDE_PARTITIONS)]
    data = [TopicProduceData(name=WIDE, partition_data=parts)]
    answer = target.ask(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data), 9)
    assert {one.error_code for one in answer.responses[0].partition_responses} == {0}


# -- topics and records ----------------------------------------------------------------------------


@attack
def topics_up_to_the_limit(target: Target) -> None:
    """Every name is created or refused; all are removed again."""
    names = [target.new("flood") for _ in range(20)]
    try:
        for code in target.create(*names, partitions=2):
            assert code in (ErrorCode.NONE, ErrorCode.POLICY_VIOLATION), code
    finally:
        target.delete(*names)


@attack
def topics_that_are_only_validated(target: Target) -> None:
    topics = [
        CreatableTopic(
            name=f"none-{number}",
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[],
        )
        for number in range(4000)
    ]
    answer = target.ask(CreateTopicsRequest(topics=topics, validate_only=True))
    assert {one.error_code for one in answer.topics} == {0}


@attack
def deleted_records(target: Target) -> None:
    partition = target.chance.randrange(STORED_PARTITIONS)
    for _ in range(5):
        target.ask(produce(*[(partition, small(bytes(1000)))] * 10, topic=STORED), 9)
        wanted = [DeleteRecordsPartition(partition_index=partition, offset=-1)]
        topics = [DeleteRecordsTopic(name=STORED, partitions=wanted)]
        answer = target.ask(DeleteRecordsRequest(timeout_ms=30_000, topics=topics))
        assert answer.topics[0].partitions[0].error_code == 0


@attack
def fetch_sessions(target: Target) -> None:
    """Opened, and never used. Some have names that no topic can have."""
    long = target.chance.choice((False, True))
    name, partitions = ("x" * 32_000, 20) if long else (target.new("none"), 2000)
    wanted = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1)
        for number in range(partitions)
    ]
    for number in range(20):
        topics = [FetchTopic(topic=f"{name}-{number}", partitions=wanted)]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=0, topics=topics)
        answer = target.ask(request, 12)
        assert answer.error_code == 0
        assert not (long and answer.session_id), "that would hold its name"


# -- groups ----------------------------------------------------------------------------------------


def joining(group: str, metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


@attack
def members_that_say_too_much(target: Target) -> None:
    answer = target.ask(joining(target.new("group"), bytes(4 * MIB)), JOIN_VERSION)
    refused([answer.error_code], ErrorCode.MESSAGE_TOO_LARGE)


@attack
def assignments_that_are_too_large(target: Target) -> None:
    group = target.new("group")
    joined = target.ask(joining(group, b"m"), JOIN_VERSION)
    assert joined.error_code == 0
    assigned = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(4 * MIB))
    answer = target.ask(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assigned],
        ),
        JOIN_VERSION,
    )
    refused([answer.error_code], ErrorCode.MESSAGE_TOO_LARGE)


@attack
def groups_of_one_member(target: Target) -> None:
    """As large as they may be. Members leave without a word."""
    for _ in range(10):
        answer = target.ask(joining(target.new("group"), bytes(MIB // 2)), JOIN_VERSION)
        assert answer.error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE), answer.error_code


@attack
def groups_that_commit_once(target: Target) -> None:
    part = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata="x" * 4000
    )
    topics = [OffsetCommitRequestTopic(name=STORED, partitions=[part])]
    for _ in range(20):
        commit = OffsetCommitRequest(group_id=target.new("group"), member_id="", topics=topics)
        answer = target.ask(commit, 9)
        assert answer.topics[0].partitions[0].error_code == 0


@attack
def patterns_that_take_long(target: Target) -> None:
    for pattern in ("(a|aa)+$", "(.*)(.*)(.*)(.*)x", "(w|i|d|e){1,500}", "[" * 900):
        answer = target.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=target.new("group"),
                member_id=target.new("member"),
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_regex=pattern,
                topic_partitions=[],
            )
        )
        assert answer.error_code != ErrorCode.UNKNOWN_SERVER_ERROR


# -- producers -------------------------------------------------------------------------------------


@attack
def producer_ids(target: Target) -> None:
    with target.connected() as client:
        for _ in range(200):
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            assert client.asked(request).error_code == 0


@attack
def producers_that_write_once(target: Target) -> None:
    """With ids that nobody gave them, in as many partitions as they like."""
    partition = target.chance.randrange(WIDE_PARTITIONS)
    first = target.chance.randrange(1 << 40)
    batches = [
        (
            (partition + number) % WIDE_PARTITIONS,
            encode_batch(
                [Record(value=b"")],
                now_ms=1,
                producer_id=first + number,
                producer_epoch=0,
                base_sequence=0,
            ),
        )
        for number in range(2000)
    ]
    answer = target.ask(produce(*batches, topic=WIDE), 9)
    assert {one.error_code for one in answer.responses[0].partition_responses} == {0}


@attack
def transactions_that_stay_open(target: Target) -> None:
    """Until the node ends them."""
    for _ in range(5):
        name = target.new("transaction")
        begun = target.ask(
            InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=5000)
        )
        assert begun.error_code == 0
        topic = AddPartitionsToTxnTopic(name=STORED, partitions=range(STORED_PARTITIONS))
        target.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_producer_epoch=begun.producer_epoch,
                v3_and_below_topics=[topic],
            ),
            3,
        )
        batch = encode_batch(
            [Record(value=b"open")],
            now_ms=1,
            producer_id=begun.producer_id,
            producer_epoch=begun.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        request = produce(batch, topic=STORED, acks=-1)
        request.transactional_id = name
        target.ask(request, 9)
