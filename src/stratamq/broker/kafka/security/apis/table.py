"""Every API: which right it needs, and how its lack is reported. Nothing else decides.

An API that is served and has no row here fails a test, and the start of a node with an authorizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stratamq.broker.kafka.security.apis import cluster as on_cluster
from stratamq.broker.kafka.security.apis import data as on_data
from stratamq.broker.kafka.security.apis import groups as on_groups
from stratamq.broker.kafka.security.apis import topics as on_topics
from stratamq.broker.kafka.security.apis import transactions as on_transactions
from stratamq.broker.kafka.security.rights import ApiRights, Judge, Rights, each, error_in, whole
from stratamq.model.access import Operation, ResourceKind
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

FREE = ApiRights(needs="nothing")
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


BEFORE_ALL: Mapping[type, ApiRights] = {
    api_versions.ApiVersionsRequest: FREE,
    sasl.SaslHandshakeRequest: FREE,
    sasl.SaslAuthenticateRequest: FREE,
}

DATA: Mapping[type, ApiRights] = {
    produce.ProduceRequest: ApiRights(
        needs="WRITE topic; WRITE transactional id, if there is one", judge=on_data.produce
    ),
    fetch.FetchRequest: ApiRights(
        needs="READ topic; CLUSTER_ACTION cluster for replicas",
        judge=on_data.fetch,
    ),
    log_offsets.ListOffsetsRequest: ApiRights(
        needs="DESCRIBE topic",
        judge=_topics(O.DESCRIBE, on_data.no_offsets, log_offsets.ListOffsetsResponse),
    ),
    log_offsets.OffsetForLeaderEpochRequest: ApiRights(
        needs="DESCRIBE topic, or CLUSTER_ACTION cluster", judge=on_data.leader_epochs
    ),
    log_offsets.DeleteRecordsRequest: ApiRights(
        needs="DELETE topic",
        judge=_topics(O.DELETE, on_data.not_deleted, log_offsets.DeleteRecordsResponse),
    ),
    log_offsets.DeleteSelectedRecordsRequest: ApiRights(
        needs="DELETE topic",
        judge=_topics(
            O.DELETE,
            on_topics.topic_error(log_offsets.DeletedSelection),
            log_offsets.DeleteSelectedRecordsResponse,
        ),
    ),
}

TOPICS: Mapping[type, ApiRights] = {
    metadata.MetadataRequest: ApiRights(
        needs="DESCRIBE topic; CREATE topic or cluster to create one; others are left out",
        judge=on_topics.metadata,
        after=on_topics.without_hidden_topics,
        reports=on_topics.report_in_metadata,
    ),
    metadata.DescribeTopicPartitionsRequest: ApiRights(
        needs="DESCRIBE topic; others are left out",
        judge=_topics(
            O.DESCRIBE, on_topics.hidden_partitions, metadata.DescribeTopicPartitionsResponse
        ),
        after=on_topics.without_hidden_partitions,
        reports=on_topics.report_in_partitions,
    ),
    topics.CreateTopicsRequest: ApiRights(
        needs="CREATE topic or cluster; DESCRIBE_CONFIGS topic to see its configs",
        judge=each(
            "topics",
            on_topics.may_create,
            on_topics.not_created,
            topics.CreateTopicsResponse,
            "topics",
        ),
        after=on_topics.without_hidden_configs,
    ),
    topics.DeleteTopicsRequest: ApiRights(needs="DELETE topic", judge=on_topics.delete_topics),
    topics.CreatePartitionsRequest: ApiRights(
        needs="ALTER topic",
        judge=_topics(
            O.ALTER,
            on_topics.topic_error(topics.CreatePartitionsTopicResult),
            topics.CreatePartitionsResponse,
            "results",
        ),
    ),
    configs.DescribeConfigsRequest: ApiRights(
        needs="DESCRIBE_CONFIGS topic, group or cluster",
        judge=on_topics.configs(
            O.DESCRIBE_CONFIGS,
            on_topics.hidden_configs,
            configs.DescribeConfigsResponse,
            "results",
        ),
    ),
    configs.AlterConfigsRequest: ApiRights(
        needs="ALTER_CONFIGS topic, group or cluster",
        judge=on_topics.configs(
            O.ALTER_CONFIGS, on_topics.unaltered_configs, configs.AlterConfigsResponse, "responses"
        ),
    ),
    configs.IncrementalAlterConfigsRequest: ApiRights(
        needs="ALTER_CONFIGS topic, group or cluster",
        judge=on_topics.configs(
            O.ALTER_CONFIGS,
            on_topics.unaltered_configs,
            configs.IncrementalAlterConfigsResponse,
            "responses",
        ),
    ),
}

GROUPS: Mapping[type, ApiRights] = {
    groups.FindCoordinatorRequest: ApiRights(
        needs="DESCRIBE group or transactional id", judge=on_groups.find_coordinator
    ),
    groups.JoinGroupRequest: ApiRights(
        needs="READ group",
        judge=on_groups.member(
            error_in(
                groups.JoinGroupResponse, protocol_name="", leader="", member_id="", members=[]
            )
        ),
    ),
    groups.SyncGroupRequest: ApiRights(
        needs="READ group",
        judge=on_groups.member(error_in(groups.SyncGroupResponse, assignment=b"")),
    ),
    groups.HeartbeatRequest: ApiRights(
        needs="READ group", judge=on_groups.member(error_in(groups.HeartbeatResponse))
    ),
    groups.LeaveGroupRequest: ApiRights(
        needs="READ group", judge=on_groups.member(error_in(groups.LeaveGroupResponse))
    ),
    consumer_groups.ConsumerGroupHeartbeatRequest: ApiRights(
        needs="READ group, DESCRIBE topic", judge=on_groups.consumer_heartbeat
    ),
    consumer_groups.ConsumerGroupDescribeRequest: ApiRights(
        needs="DESCRIBE group, DESCRIBE topic",
        judge=_groups(
            "group_ids",
            O.DESCRIBE,
            on_groups.undescribed_consumers,
            consumer_groups.ConsumerGroupDescribeResponse,
            "groups",
        ),
        after=on_groups.without_hidden_members,
        reports=on_groups.report_in_groups,
    ),
    groups_admin.DescribeGroupsRequest: ApiRights(
        needs="DESCRIBE group",
        judge=_groups(
            "groups",
            O.DESCRIBE,
            on_groups.undescribed,
            groups_admin.DescribeGroupsResponse,
            "groups",
        ),
        reports=on_groups.report_in_groups,
    ),
    groups_admin.ListGroupsRequest: ApiRights(
        needs="DESCRIBE cluster, or DESCRIBE group; others are left out",
        after=on_groups.without_hidden_groups,
    ),
    groups_admin.DeleteGroupsRequest: ApiRights(
        needs="DELETE group",
        judge=_groups(
            "groups_names",
            O.DELETE,
            on_groups.undeleted,
            groups_admin.DeleteGroupsResponse,
            "results",
        ),
    ),
    group_offsets.OffsetCommitRequest: ApiRights(
        needs="READ group, READ topic", judge=on_groups.commit
    ),
    group_offsets.OffsetFetchRequest: ApiRights(
        needs="DESCRIBE group, DESCRIBE topic",
        judge=on_groups.fetch_offsets,
        after=on_groups.without_hidden_offsets,
    ),
    group_offsets.OffsetDeleteRequest: ApiRights(
        needs="DELETE group, READ topic", judge=on_groups.delete_offsets
    ),
}

TRANSACTIONS: Mapping[type, ApiRights] = {
    transactions.InitProducerIdRequest: ApiRights(
        needs="WRITE transactional id; without one IDEMPOTENT_WRITE cluster or WRITE any topic",
        judge=on_transactions.init_producer,
    ),
    transactions.AddPartitionsToTxnRequest: ApiRights(
        needs="WRITE transactional id, WRITE topic; from version 4 CLUSTER_ACTION cluster",
        judge=on_transactions.add_partitions,
    ),
    transactions.AddOffsetsToTxnRequest: ApiRights(
        needs="WRITE transactional id, READ group", judge=on_transactions.add_offsets
    ),
    transactions.EndTxnRequest: ApiRights(
        needs="WRITE transactional id",
        judge=whole(
            O.WRITE,
            TRANSACTION,
            error_in(transactions.EndTxnResponse),
            lambda request: str(request.transactional_id),
        ),
    ),
    transactions.TxnOffsetCommitRequest: ApiRights(
        needs="WRITE transactional id, READ group, READ topic",
        judge=on_transactions.commit_offsets,
    ),
    transactions.WriteTxnMarkersRequest: ApiRights(
        needs="CLUSTER_ACTION cluster",
        judge=whole(O.CLUSTER_ACTION, CLUSTER, on_transactions.unmarked),
    ),
    transactions_admin.DescribeProducersRequest: ApiRights(
        needs="READ topic",
        judge=_topics(
            O.READ, on_transactions.hidden_producers, transactions_admin.DescribeProducersResponse
        ),
    ),
    transactions_admin.DescribeTransactionsRequest: ApiRights(
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
    transactions_admin.ListTransactionsRequest: ApiRights(
        needs="DESCRIBE transactional id; others are left out",
        after=on_transactions.without_hidden_transactions,
    ),
}

LAKE: Mapping[type, ApiRights] = {
    lake.DescribeLakeRequest: ApiRights(
        needs="READ topic",
        judge=_topics(O.READ, on_topics.topic_error(lake.DescribedLake), lake.DescribeLakeResponse),
    ),
    lake.FlushLakeRequest: ApiRights(
        needs="ALTER topic",
        judge=_topics(O.ALTER, on_topics.topic_error(lake.FlushedLake), lake.FlushLakeResponse),
    ),
    lake.CommitLakeRequest: ApiRights(
        needs="ALTER topic",
        judge=_topics(O.ALTER, on_topics.topic_error(lake.CommittedLake), lake.CommitLakeResponse),
    ),
}

ADMINISTRATION: Mapping[type, ApiRights] = {
    metadata.DescribeClusterRequest: ApiRights(
        needs="nothing; DESCRIBE cluster to see one's rights",
        reports=on_cluster.report_in_cluster,
    ),
    acls.DescribeAclsRequest: ApiRights(
        needs="DESCRIBE cluster",
        judge=whole(O.DESCRIBE, CLUSTER, error_in(acls.DescribeAclsResponse, resources=[])),
    ),
    acls.CreateAclsRequest: ApiRights(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.no_rules_created)
    ),
    acls.DeleteAclsRequest: ApiRights(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.no_rules_deleted)
    ),
    sasl.DescribeUserScramCredentialsRequest: ApiRights(
        needs="DESCRIBE cluster",
        judge=whole(
            O.DESCRIBE, CLUSTER, error_in(sasl.DescribeUserScramCredentialsResponse, results=[])
        ),
    ),
    sasl.AlterUserScramCredentialsRequest: ApiRights(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.no_users_altered)
    ),
    quotas.DescribeClientQuotasRequest: ApiRights(
        needs="DESCRIBE_CONFIGS cluster",
        judge=whole(
            O.DESCRIBE_CONFIGS, CLUSTER, error_in(quotas.DescribeClientQuotasResponse, entries=None)
        ),
    ),
    quotas.AlterClientQuotasRequest: ApiRights(
        needs="ALTER_CONFIGS cluster",
        judge=whole(O.ALTER_CONFIGS, CLUSTER, on_cluster.no_quotas_altered),
    ),
    configs.ListConfigResourcesRequest: ApiRights(
        needs="DESCRIBE_CONFIGS cluster",
        judge=whole(
            O.DESCRIBE_CONFIGS,
            CLUSTER,
            error_in(configs.ListConfigResourcesResponse, config_resources=[]),
        ),
    ),
    cluster_admin.DescribeLogDirsRequest: ApiRights(
        needs="DESCRIBE cluster",
        judge=whole(
            O.DESCRIBE, CLUSTER, error_in(cluster_admin.DescribeLogDirsResponse, results=[])
        ),
    ),
    cluster_admin.AlterReplicaLogDirsRequest: ApiRights(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, on_cluster.not_moved)
    ),
    cluster_admin.ElectLeadersRequest: ApiRights(needs="ALTER cluster", judge=on_cluster.elect),
    cluster_admin.AlterPartitionReassignmentsRequest: ApiRights(
        needs="ALTER cluster",
        judge=whole(
            O.ALTER,
            CLUSTER,
            error_in(cluster_admin.AlterPartitionReassignmentsResponse, responses=[]),
        ),
    ),
    cluster_admin.ListPartitionReassignmentsRequest: ApiRights(
        needs="DESCRIBE cluster",
        judge=whole(
            O.DESCRIBE,
            CLUSTER,
            error_in(cluster_admin.ListPartitionReassignmentsResponse, topics=[]),
        ),
    ),
    quorum.DescribeQuorumRequest: ApiRights(
        needs="DESCRIBE cluster",
        judge=whole(O.DESCRIBE, CLUSTER, error_in(quorum.DescribeQuorumResponse, topics=[])),
    ),
    node_check.CheckNodeRequest: ApiRights(
        needs="DESCRIBE cluster",
        judge=whole(O.DESCRIBE, CLUSTER, error_in(node_check.CheckNodeResponse)),
    ),
    backup.BackUpRequest: ApiRights(
        needs="ALTER cluster", judge=whole(O.ALTER, CLUSTER, error_in(backup.BackUpResponse))
    ),
    quorum.UnregisterBrokerRequest: ApiRights(
        needs="ALTER cluster",
        judge=whole(O.ALTER, CLUSTER, error_in(quorum.UnregisterBrokerResponse)),
    ),
    quorum.UpdateFeaturesRequest: ApiRights(
        needs="ALTER cluster",
        judge=whole(O.ALTER, CLUSTER, error_in(quorum.UpdateFeaturesResponse)),
    ),
}

TABLE: Mapping[type, ApiRights] = {
    **BEFORE_ALL,
    **DATA,
    **TOPICS,
    **GROUPS,
    **TRANSACTIONS,
    **LAKE,
    **ADMINISTRATION,
}
