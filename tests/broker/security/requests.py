"""For each API a request that touches one of everything, and what somebody without rights is told.

`Sample.make` is given the version and the id of the topic `secret`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages import (
    acls,
    api_versions,
    backup,
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
    node_check,
    produce,
    quorum,
    quotas,
    sasl,
    topics,
    transactions,
    transactions_admin,
)

TOPIC = "secret"
NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
LEFT_OUT = None
"""What one may not see is not in the answer, and that is all."""


class Sample(NamedTuple):
    make: Callable[[int, bytes], Any]
    told: ErrorCode | None


def named(version: int, topic_id: bytes, by_id_from: int, name: str = "name") -> dict[str, Any]:
    """A topic by what the version names it by."""
    return {"topic_id": topic_id} if version >= by_id_from else {name: TOPIC}


def produced(version: int, topic_id: bytes) -> Any:
    data = [produce.PartitionProduceData(index=0, records=b"")]
    topic = produce.TopicProduceData(**named(version, topic_id, 13), partition_data=data)
    return produce.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def fetched(version: int, topic_id: bytes) -> Any:
    wanted = [fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    topic = fetch.FetchTopic(**named(version, topic_id, 13, "topic"), partitions=wanted)
    return fetch.FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic])


def listed(version: int, topic_id: bytes) -> Any:
    wanted = [log_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    topic = log_offsets.ListOffsetsTopic(name=TOPIC, partitions=wanted)
    return log_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic])


def epochs(version: int, topic_id: bytes) -> Any:
    wanted = [log_offsets.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
    topic = log_offsets.OffsetForLeaderTopic(topic=TOPIC, partitions=wanted)
    return log_offsets.OffsetForLeaderEpochRequest(topics=[topic])


def records_deleted(version: int, topic_id: bytes) -> Any:
    wanted = [log_offsets.DeleteRecordsPartition(partition_index=0, offset=-1)]
    topic = log_offsets.DeleteRecordsTopic(name=TOPIC, partitions=wanted)
    return log_offsets.DeleteRecordsRequest(topics=[topic], timeout_ms=1000)


def described(version: int, topic_id: bytes) -> Any:
    by_name = metadata.MetadataRequestTopic(name=TOPIC)
    by_id = metadata.MetadataRequestTopic(name=None, topic_id=topic_id)
    return metadata.MetadataRequest(topics=[by_id if version >= 12 else by_name])


def created(version: int, topic_id: bytes) -> Any:
    topic = topics.CreatableTopic(
        name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    return topics.CreateTopicsRequest(topics=[topic])


def deleted(version: int, topic_id: bytes) -> Any:
    if version < 6:
        return topics.DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000)
    by_name = topics.DeleteTopicState(name=TOPIC, topic_id=NO_UUID)
    by_id = topics.DeleteTopicState(name=None, topic_id=topic_id)
    return topics.DeleteTopicsRequest(topics=[by_name, by_id], timeout_ms=1000)


def widened(version: int, topic_id: bytes) -> Any:
    topic = topics.CreatePartitionsTopic(name=TOPIC, count=9, assignments=None)
    return topics.CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)


def configs_described(version: int, topic_id: bytes) -> Any:
    topic = configs.DescribeConfigsResource(
        resource_type=2, resource_name=TOPIC, configuration_keys=None
    )
    return configs.DescribeConfigsRequest(resources=[topic])


def configs_altered(version: int, topic_id: bytes) -> Any:
    topic = configs.AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=[])
    return configs.AlterConfigsRequest(resources=[topic], validate_only=False)


def configs_incremented(version: int, topic_id: bytes) -> Any:
    broker = configs.IncrementalAlterConfigsResource(resource_type=4, resource_name="1", configs=[])
    return configs.IncrementalAlterConfigsRequest(resources=[broker], validate_only=False)


def coordinator(version: int, topic_id: bytes) -> Any:
    if version >= 4:
        return groups.FindCoordinatorRequest(coordinator_keys=["g", "h"])
    return groups.FindCoordinatorRequest(key="g")


def joined(version: int, topic_id: bytes) -> Any:
    return groups.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[groups.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def committed(version: int, topic_id: bytes) -> Any:
    offset = group_offsets.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = group_offsets.OffsetCommitRequestTopic(
        **named(version, topic_id, 10), partitions=[offset]
    )
    return group_offsets.OffsetCommitRequest(group_id="g", member_id="", topics=[topic])


def offsets_fetched(version: int, topic_id: bytes) -> Any:
    if version < 8:
        topic = group_offsets.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        return group_offsets.OffsetFetchRequest(group_id="g", topics=[topic])
    wanted = group_offsets.OffsetFetchRequestTopics(
        **named(version, topic_id, 10), partition_indexes=[0]
    )
    group = group_offsets.OffsetFetchRequestGroup(group_id="g", topics=[wanted])
    return group_offsets.OffsetFetchRequest(groups=[group])


def offsets_deleted(version: int, topic_id: bytes) -> Any:
    one = group_offsets.OffsetDeleteRequestPartition(partition_index=0)
    topic = group_offsets.OffsetDeleteRequestTopic(name=TOPIC, partitions=[one])
    return group_offsets.OffsetDeleteRequest(group_id="g", topics=[topic])


def consumer_beat(version: int, topic_id: bytes) -> Any:
    return consumer_groups.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=[TOPIC]
    )


def partitions_added(version: int, topic_id: bytes) -> Any:
    topic = transactions.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
    if version >= 4:
        one = transactions.AddPartitionsToTxnTransaction(
            transactional_id="t", producer_id=1, producer_epoch=0, topics=[topic]
        )
        return transactions.AddPartitionsToTxnRequest(transactions=[one])
    return transactions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t", v3_and_below_topics=[topic]
    )


def offsets_of_transaction(version: int, topic_id: bytes) -> Any:
    offset = transactions.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = transactions.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[offset])
    return transactions.TxnOffsetCommitRequest(
        transactional_id="t", group_id="g", producer_id=1, producer_epoch=0, topics=[topic]
    )


def markers(version: int, topic_id: bytes) -> Any:
    topic = transactions.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])
    marker = transactions.WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        topics=[topic],
        coordinator_epoch=0,
    )
    return transactions.WriteTxnMarkersRequest(markers=[marker])


def producers(version: int, topic_id: bytes) -> Any:
    topic = transactions_admin.DescribeProducersTopic(name=TOPIC, partition_indexes=[0])
    return transactions_admin.DescribeProducersRequest(topics=[topic])


def rules(version: int, topic_id: bytes) -> Any:
    return acls.DescribeAclsRequest(**ANY_RULE)


ANY_RULE: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def rules_created(version: int, topic_id: bytes) -> Any:
    one = acls.AclCreation(
        resource_type=2,
        resource_name=TOPIC,
        principal="User:ANONYMOUS",
        host="*",
        operation=2,
        permission_type=3,
    )
    return acls.CreateAclsRequest(creations=[one])


def rules_deleted(version: int, topic_id: bytes) -> Any:
    return acls.DeleteAclsRequest(filters=[acls.DeleteAclsFilter(**ANY_RULE)])


def users_altered(version: int, topic_id: bytes) -> Any:
    one = sasl.ScramCredentialUpsertion(
        name="eve", mechanism=1, iterations=4096, salt=b"s" * 16, salted_password=b"p" * 32
    )
    return sasl.AlterUserScramCredentialsRequest(deletions=[], upsertions=[one])


def disks_altered(version: int, topic_id: bytes) -> Any:
    topic = cluster_admin.AlterReplicaLogDirTopic(name="t", partitions=[0])
    one = cluster_admin.AlterReplicaLogDir(path="/x", topics=[topic])
    return cluster_admin.AlterReplicaLogDirsRequest(dirs=[one])


def quotas_altered(version: int, topic_id: bytes) -> Any:
    entity = [quotas.QuotaEntity(entity_type="user", entity_name="eve")]
    op = quotas.QuotaOperation(key="producer_byte_rate", value=1.0, remove=False)
    entry = quotas.QuotaAlteration(entity=entity, ops=[op])
    return quotas.AlterClientQuotasRequest(entries=[entry], validate_only=False)


def election(version: int, topic_id: bytes) -> Any:
    topic = cluster_admin.ElectLeadersTopic(topic=TOPIC, partitions=[0])
    return cluster_admin.ElectLeadersRequest(topic_partitions=[topic])


def described_software(version: int, topic_id: bytes) -> Any:
    if version < 3:
        return api_versions.ApiVersionsRequest()
    return api_versions.ApiVersionsRequest(client_software_name="test", client_software_version="1")


def fixed(request: Any) -> Callable[[int, bytes], Any]:
    return lambda version, topic_id: request


def _member(request: type, **more: Any) -> Callable[[int, bytes], Any]:
    return fixed(request(group_id="g", generation_id=1, member_id="m", **more))


MADE_FILE = lake.MadeFile(
    base_offset=0,
    end_offset=1,
    key="k",
    size=1,
    crc=0,
    end_size=1,
    end_crc=0,
    index_size=0,
    index_crc=0,
    rows=1,
    batches=1,
    min_timestamp=0,
    max_timestamp=0,
)

SAMPLES: Mapping[type, Sample] = {
    api_versions.ApiVersionsRequest: Sample(described_software, LEFT_OUT),
    produce.ProduceRequest: Sample(produced, NO_TOPIC),
    fetch.FetchRequest: Sample(fetched, NO_TOPIC),
    log_offsets.ListOffsetsRequest: Sample(listed, NO_TOPIC),
    log_offsets.OffsetForLeaderEpochRequest: Sample(epochs, NO_TOPIC),
    log_offsets.DeleteRecordsRequest: Sample(records_deleted, NO_TOPIC),
    log_offsets.DeleteSelectedRecordsRequest: Sample(
        fixed(
            log_offsets.DeleteSelectedRecordsRequest(
                topics=[log_offsets.SelectedRecords(name=TOPIC, partition_index=0, offset=0)]
            )
        ),
        NO_TOPIC,
    ),
    lake.DescribeLakeRequest: Sample(
        fixed(lake.DescribeLakeRequest(topics=[lake.LakeTopic(name=TOPIC)])), NO_TOPIC
    ),
    lake.FlushLakeRequest: Sample(
        fixed(lake.FlushLakeRequest(topics=[lake.LakeTopic(name=TOPIC)])), NO_TOPIC
    ),
    lake.CommitLakeRequest: Sample(
        fixed(
            lake.CommitLakeRequest(
                topics=[
                    lake.CommitLakeTopic(name=TOPIC, partition_index=0, replace=[0], file=MADE_FILE)
                ]
            )
        ),
        NO_TOPIC,
    ),
    metadata.MetadataRequest: Sample(described, NO_TOPIC),
    metadata.DescribeTopicPartitionsRequest: Sample(
        fixed(
            metadata.DescribeTopicPartitionsRequest(
                topics=[metadata.DescribeTopicPartitionsTopic(name=TOPIC)]
            )
        ),
        NO_TOPIC,
    ),
    metadata.DescribeClusterRequest: Sample(
        fixed(metadata.DescribeClusterRequest(include_cluster_authorized_operations=False)),
        LEFT_OUT,
    ),
    topics.CreateTopicsRequest: Sample(created, NO_TOPIC),
    topics.DeleteTopicsRequest: Sample(deleted, NO_TOPIC),
    topics.CreatePartitionsRequest: Sample(widened, NO_TOPIC),
    configs.DescribeConfigsRequest: Sample(configs_described, NO_TOPIC),
    configs.AlterConfigsRequest: Sample(configs_altered, NO_TOPIC),
    configs.IncrementalAlterConfigsRequest: Sample(configs_incremented, NO_CLUSTER),
    configs.ListConfigResourcesRequest: Sample(
        fixed(configs.ListConfigResourcesRequest()), NO_CLUSTER
    ),
    groups.FindCoordinatorRequest: Sample(coordinator, NO_GROUP),
    groups.JoinGroupRequest: Sample(joined, NO_GROUP),
    groups.SyncGroupRequest: Sample(_member(groups.SyncGroupRequest, assignments=[]), NO_GROUP),
    groups.HeartbeatRequest: Sample(_member(groups.HeartbeatRequest), NO_GROUP),
    groups.LeaveGroupRequest: Sample(
        lambda version, _: groups.LeaveGroupRequest(
            group_id="g",
            **({"member_id": "m"} if version < 3 else {"members": []}),
        ),
        NO_GROUP,
    ),
    consumer_groups.ConsumerGroupHeartbeatRequest: Sample(consumer_beat, NO_GROUP),
    consumer_groups.ConsumerGroupDescribeRequest: Sample(
        fixed(
            consumer_groups.ConsumerGroupDescribeRequest(
                group_ids=["g"], include_authorized_operations=True
            )
        ),
        NO_GROUP,
    ),
    groups_admin.DescribeGroupsRequest: Sample(
        fixed(groups_admin.DescribeGroupsRequest(groups=["g"])), NO_GROUP
    ),
    groups_admin.ListGroupsRequest: Sample(fixed(groups_admin.ListGroupsRequest()), LEFT_OUT),
    groups_admin.DeleteGroupsRequest: Sample(
        fixed(groups_admin.DeleteGroupsRequest(groups_names=["g"])), NO_GROUP
    ),
    group_offsets.OffsetCommitRequest: Sample(committed, NO_GROUP),
    group_offsets.OffsetFetchRequest: Sample(offsets_fetched, NO_GROUP),
    group_offsets.OffsetDeleteRequest: Sample(offsets_deleted, NO_GROUP),
    transactions.InitProducerIdRequest: Sample(
        fixed(
            transactions.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
        ),
        NO_TRANSACTION,
    ),
    transactions.AddPartitionsToTxnRequest: Sample(partitions_added, NO_TRANSACTION),
    transactions.AddOffsetsToTxnRequest: Sample(
        fixed(
            transactions.AddOffsetsToTxnRequest(
                transactional_id="t", producer_id=1, producer_epoch=0, group_id="g"
            )
        ),
        NO_TRANSACTION,
    ),
    transactions.EndTxnRequest: Sample(
        fixed(
            transactions.EndTxnRequest(
                transactional_id="t", producer_id=1, producer_epoch=0, committed=True
            )
        ),
        NO_TRANSACTION,
    ),
    transactions.TxnOffsetCommitRequest: Sample(offsets_of_transaction, NO_TRANSACTION),
    transactions.WriteTxnMarkersRequest: Sample(markers, NO_CLUSTER),
    transactions_admin.DescribeProducersRequest: Sample(producers, NO_TOPIC),
    transactions_admin.DescribeTransactionsRequest: Sample(
        fixed(transactions_admin.DescribeTransactionsRequest(transactional_ids=["t"])),
        NO_TRANSACTION,
    ),
    transactions_admin.ListTransactionsRequest: Sample(
        fixed(transactions_admin.ListTransactionsRequest(state_filters=[], producer_id_filters=[])),
        LEFT_OUT,
    ),
    acls.DescribeAclsRequest: Sample(rules, NO_CLUSTER),
    acls.CreateAclsRequest: Sample(rules_created, NO_CLUSTER),
    acls.DeleteAclsRequest: Sample(rules_deleted, NO_CLUSTER),
    sasl.DescribeUserScramCredentialsRequest: Sample(
        fixed(sasl.DescribeUserScramCredentialsRequest(users=None)), NO_CLUSTER
    ),
    sasl.AlterUserScramCredentialsRequest: Sample(users_altered, NO_CLUSTER),
    quotas.DescribeClientQuotasRequest: Sample(
        fixed(quotas.DescribeClientQuotasRequest(components=[], strict=False)), NO_CLUSTER
    ),
    quotas.AlterClientQuotasRequest: Sample(quotas_altered, NO_CLUSTER),
    cluster_admin.DescribeLogDirsRequest: Sample(
        fixed(cluster_admin.DescribeLogDirsRequest(topics=None)), NO_CLUSTER
    ),
    cluster_admin.ElectLeadersRequest: Sample(election, NO_CLUSTER),
    cluster_admin.AlterReplicaLogDirsRequest: Sample(disks_altered, NO_CLUSTER),
    quorum.DescribeQuorumRequest: Sample(
        fixed(quorum.DescribeQuorumRequest(topics=[])), NO_CLUSTER
    ),
    node_check.CheckNodeRequest: Sample(
        fixed(node_check.CheckNodeRequest(name="open files")), NO_CLUSTER
    ),
    backup.BackUpRequest: Sample(
        fixed(backup.BackUpRequest(name="monday", begins=True)), NO_CLUSTER
    ),
    quorum.UnregisterBrokerRequest: Sample(
        fixed(quorum.UnregisterBrokerRequest(broker_id=1)), NO_CLUSTER
    ),
    quorum.UpdateFeaturesRequest: Sample(
        fixed(quorum.UpdateFeaturesRequest(feature_updates=[])), NO_CLUSTER
    ),
    cluster_admin.AlterPartitionReassignmentsRequest: Sample(
        fixed(cluster_admin.AlterPartitionReassignmentsRequest(topics=[])), NO_CLUSTER
    ),
    cluster_admin.ListPartitionReassignmentsRequest: Sample(
        fixed(cluster_admin.ListPartitionReassignmentsRequest()), NO_CLUSTER
    ),
}

TOLD_OTHERWISE: Mapping[tuple[type, int], ErrorCode | None] = {
    **{
        (transactions.AddPartitionsToTxnRequest, version): NO_CLUSTER for version in (4, 5)
    },  # brokers ask so
    **{
        (cluster_admin.DescribeLogDirsRequest, version): LEFT_OUT for version in (1, 2)
    },  # no room for an error
}
