"""Every API there is: which right it needs, and how its lack is told. Nothing else decides.

An API that is served and has no row here fails a test, and the start of a node with an authorizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stratamq.broker.kafka.security import (
    on_cluster,
    on_data,
    on_groups,
    on_lake,
    on_topics,
    on_transactions,
)
from stratamq.broker.kafka.security.rights import Rights
from stratamq.broker.kafka.security.verdicts import Entry, Judge, each, whole
from stratamq.model.access import Operation, ResourceKind
from stratamq.wire.kafka.protocol.messages import (
    acls,
    api_versions,
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

FREE = Entry(needs="nothing")
CLUSTER, TRANSACTION = ResourceKind.CLUSTER, ResourceKind.TRANSACTIONAL_ID
O = Operation  # noqa: E741


def _topics(operation: Operation, refuse: Any, response: type, answers: str = "topics") -> Judge:
    def allows(topic: Any, rights: Rights) -> bool:
        return rights.on_topic(operation, topic.name)

    return each("topics", allows, refuse, response, answers)


def _groups(items: str, operation: Operation, refuse: Any, response: type, answers: str) -> Judge:
    def allows(name: str, rights: Rights) -> bool:
        return rights.on_group(operation, name)

    return each(items, allows, refuse, response, answers)


def _error_only(response: type) -> Any:
    return lambda request, code: response(error_code=code)


BEFORE_ALL: Mapping[type, Entry] = {
    api_versions.ApiVersionsRequest: FREE,
    sasl.SaslHandshakeRequest: FREE,
    sasl.SaslAuthenticateRequest: FREE,
}

DATA: Mapping[type, Entry] = {
    produce.ProduceRequest: Entry(
        needs="WRITE topic; WRITE transactional id, if there is one", judge=on_data.produce
    ),
    fetch.FetchRequest: Entry(
        needs="READ topic; CLUSTER_ACTION cluster for replicas",
        judge=on_data.fetch,
    ),
    log_offsets.ListOffsetsRequest: Entry(
        needs="DESCRIBE topic",
        judge=_topics(O.DESCRIBE, on_data.no_offsets, log_offsets.ListOffsetsResponse),
    ),
    log_offsets.OffsetForLeaderEpochRequest: Entry(
        needs="DESCRIBE topic, or CLUSTER_ACTION cluster", judge=on_data.leader_epochs
    ),
    log_offsets.DeleteRecordsRequest: Entry(
        needs="DELETE topic",
        judge=_topics(O.DELETE, on_data.not_deleted, log_offsets.DeleteRecordsResponse),
    ),
}

TOPICS: Mapping[type, Entry] = {
    metadata.MetadataRequest: Entry(
        needs="DESCRIBE topic; CREATE topic or cluster to make one; others are left out",
        judge=on_topics.metadata,
        after=on_topics.without_hidden_topics,
        tells=on_topics.tell_in_metadata,
    ),
    metadata.DescribeTopicPartitionsRequest: Entry(
        needs="DESCRIBE topic; others are left out",
        judge=_topics(
            O.DESCRIBE, on_topics.hidden_partitions, metadata.DescribeTopicPartitionsResponse
        ),
        after=on_topics.without_hidden_partitions,
        tells=on_topics.tell_in_partitions,
    ),
    topics.CreateTopicsRequest: Entry(
        needs="CREATE topic or cluster; DESCRIBE_CONFIGS topic to be told its configs",
        judge=each(
            "topics",
            on_topics.may_create,
            on_topics.not_created,
            topics.CreateTopicsResponse,
            "topics",
        ),
        after=on_topics.without_hidden_configs,
    ),
    topics.DeleteTopicsRequest: Entry(needs="DELETE topic", judge=on_topics.delete_topics),
    topics.CreatePartitionsRequest: Entry(
        needs="ALTER topic",
        judge=_topics(O.ALTER, on_topics.not_widened, topics.CreatePartitionsResponse, "results"),
    ),
    configs.DescribeConfigsRequest: Entry(
        needs="DESCRIBE_CONFIGS topic, group or cluster",
        judge=on_topics.configs(
            O.DESCRIBE_CONFIGS,
            on_topics.hidden_configs,
            configs.DescribeConfigsResponse,
            "results",
        ),
    ),
    configs.AlterConfigsRequest: Entry(
        needs="ALTER_CONFIGS topic, group or cluster",
        judge=on_topics.configs(
            O.ALTER_CONFIGS, on_topics.unaltered_configs, configs.AlterConfigsResponse, "responses"
        ),
    ),
    configs.IncrementalAlterConfigsRequest: Entry(
        needs="ALTER_CONFIGS topic, group or cluster",
        judge=on_topics.configs(
            O.ALTER_CONFIGS,
            on_topics.unaltered_configs,
            configs.IncrementalAlterConfigsResponse,
            "responses",
        ),
    ),
}

GROUPS: Mapping[type, Entry] = {
    groups.FindCoordinatorRequest: Entry(
        needs="DESCRIBE group or transactional id", judge=on_groups.find_coordinator
    ),
    groups.JoinGroupRequest: Entry(
        needs="READ group", judge=on_groups.member(on_groups.not_joined)
    ),
    groups.SyncGroupRequest: Entry(
        needs="READ group", judge=on_groups.member(on_groups.not_synced)
    ),
    groups.HeartbeatRequest: Entry(
        needs="READ group", judge=on_groups.member(_error_only(groups.HeartbeatResponse))
    ),
    groups.LeaveGroupRequest: Entry(
        needs="READ group", judge=on_groups.member(_error_only(groups.LeaveGroupResponse))
    ),
    consumer_groups.ConsumerGroupHeartbeatRequest: Entry(
        needs="READ group, DESCRIBE topic", judge=on_groups.consumer_heartbeat
    ),
    consumer_groups.ConsumerGroupDescribeRequest: Entry(
        needs="DESCRIBE group, DESCRIBE topic",
        judge=_groups(
            "group_ids",
            O.DESCRIBE,
            on_groups.undescribed_consumers,
            consumer_groups.ConsumerGroupDescribeResponse,
            "groups",
        ),
        after=on_groups.without_hidden_members,
        tells=on_groups.tell_in_groups,
    ),
    groups_admin.DescribeGroupsRequest: Entry(
        needs="DESCRIBE group",
        judge=_groups(
            "groups",
            O.DESCRIBE,
            on_groups.undescribed,
            groups_admin.DescribeGroupsResponse,
            "groups",
        ),
        tells=on_groups.tell_in_groups,
    ),
    groups_admin.ListGroupsRequest: Entry(
        needs="DESCRIBE cluster, or DESCRIBE group; others are left out",
        after=on_groups.without_hidden_groups,
    ),
    groups_admin.DeleteGroupsRequest: Entry(
        needs="DELETE group",
        judge=_groups(
            "groups_names",
            O.DELETE,
            on_groups.undeleted,
            groups_admin.DeleteGroupsResponse,
            "results",
        ),
    ),
    group_offsets.OffsetCommitRequest: Entry(
        needs="READ group, READ topic", judge=on_groups.commit
    ),
    group_offsets.OffsetFetchRequest: Entry(
        needs="DESCRIBE group, DESCRIBE topic",
        judge=on_groups.fetch_offsets,
        after=on_groups.without_hidden_offsets,
    ),
    group_offsets.OffsetDeleteRequest: Entry(
        needs="DELETE group, READ topic", judge=on_groups.delete_offsets
    ),
}

TRANSACTIONS: Mapping[type, Entry] = {
    transactions.InitProducerIdRequest: Entry(
        needs="WRITE transactional id; without one IDEMPOTENT_WRITE cluster or WRITE any topic",
        judge=on_transactions.init_producer,
    ),
    transactions.AddPartitionsToTxnRequest: Entry(
        needs="WRITE transactional id, WRITE topic; from version 4 CLUSTER_ACTION cluster",
        judge=on_transactions.add_partitions,
    ),
    transactions.AddOffsetsToTxnRequest: Entry(
        needs="WRITE transactional id, READ group", judge=on_transactions.add_offsets
    ),
    transactions.EndTxnRequest: Entry(
        needs="WRITE transactional id",
        judge=whole(
            O.WRITE,
            TRANSACTION,
            _error_only(transactions.EndTxnResponse),
            lambda request: str(request.transactional_id),
        ),
    ),
    transactions.TxnOffsetCommitRequest: Entry(
        needs="WRITE transactional id, READ group, READ topic",
        judge=on_transactions.commit_offsets,
    ),
    transactions.WriteTxnMarkersRequest: Entry(
        needs="CLUSTER_ACTION cluster",
        judge=whole(O.CLUSTER_ACTION, CLUSTER, on_transactions.unmarked),
    ),
    transactions_admin.DescribeProducersRequest: Entry(
        needs="READ topic",
        judge=_topics(
            O.READ, on_transactions.hidden_producers, transactions_admin.DescribeProducersResponse
        ),
    ),
    transactions_admin.DescribeTransactionsRequest: Entry(
        needs="DESCRIBE transactional id; topics without DESCRIBE are left out",
        judge=each(
            "transactional_ids",
            lambda name, rights: rights.on_transaction(O.DESCRIBE, name),
            on_transactions.hidden_transaction,
            transactions_admin.DescribeTransactionsResponse,
            "transaction_states",
        ),
        after=on_transactions.without_hidden_topics,
    ),
    transactions_admin.ListTransactionsRequest: Entry(
        needs="DESCRIBE transactional id; others are left out",
        after=on_transactions.without_hidden_transactions,
    ),
}

LAKE: Mapping[type, Entry] = {
    lake.DescribeLakeRequest: Entry(
        needs="READ topic", judge=_topics(O.READ, on_lake.hidden, lake.DescribeLakeResponse)
    ),
    lake.FlushLakeRequest: Entry(
        needs="ALTER topic", judge=_topics(O.ALTER, on_lake.not_flushed, lake.FlushLakeResponse)
    ),
    lake.CommitLakeRequest: Entry(
        needs="ALTER topic",
        judge=_topics(O.ALTER, on_lake.not_committed, lake.CommitLakeResponse),
    ),
}

ADMINISTRATION: Mapping[type, Entry] = {
    metadata.DescribeClusterRequest: Entry(
        needs="nothing; DESCRIBE cluster to be told one's rights",
        tells=on_cluster.tell_in_cluster,
    ),
    acls.DescribeAclsRequest: Entry(
        needs="DESCRIBE cluster", judge=whole(O.DESCRIBE, CLUSTER, on_cluster.no_rules)
    ),
    acls.CreateAclsRequest: Entry(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.no_rules_created)
    ),
    acls.DeleteAclsRequest: Entry(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.no_rules_deleted)
    ),
    sasl.DescribeUserScramCredentialsRequest: Entry(
        needs="DESCRIBE cluster", judge=whole(O.DESCRIBE, CLUSTER, on_cluster.no_users)
    ),
    sasl.AlterUserScramCredentialsRequest: Entry(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.no_users_altered)
    ),
    quotas.DescribeClientQuotasRequest: Entry(
        needs="DESCRIBE_CONFIGS cluster",
        judge=whole(O.DESCRIBE_CONFIGS, CLUSTER, on_cluster.no_quotas),
    ),
    quotas.AlterClientQuotasRequest: Entry(
        needs="ALTER_CONFIGS cluster",
        judge=whole(O.ALTER_CONFIGS, CLUSTER, on_cluster.no_quotas_altered),
    ),
    configs.ListConfigResourcesRequest: Entry(
        needs="DESCRIBE_CONFIGS cluster",
        judge=whole(O.DESCRIBE_CONFIGS, CLUSTER, on_cluster.no_resources),
    ),
    cluster_admin.DescribeLogDirsRequest: Entry(
        needs="DESCRIBE cluster", judge=whole(O.DESCRIBE, CLUSTER, on_cluster.no_disks)
    ),
    cluster_admin.AlterReplicaLogDirsRequest: Entry(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.not_moved)
    ),
    cluster_admin.ElectLeadersRequest: Entry(needs="ALTER cluster", judge=on_cluster.elect),
    cluster_admin.AlterPartitionReassignmentsRequest: Entry(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.not_reassigned)
    ),
    cluster_admin.ListPartitionReassignmentsRequest: Entry(
        needs="DESCRIBE cluster", judge=whole(O.DESCRIBE, CLUSTER, on_cluster.no_reassignments)
    ),
    quorum.DescribeQuorumRequest: Entry(
        needs="DESCRIBE cluster", judge=whole(O.DESCRIBE, CLUSTER, on_cluster.no_quorum)
    ),
    quorum.UnregisterBrokerRequest: Entry(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.not_unregistered)
    ),
    quorum.UpdateFeaturesRequest: Entry(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.not_updated)
    ),
}

TABLE: Mapping[type, Entry] = {
    **BEFORE_ALL,
    **DATA,
    **TOPICS,
    **GROUPS,
    **TRANSACTIONS,
    **LAKE,
    **ADMINISTRATION,
}
