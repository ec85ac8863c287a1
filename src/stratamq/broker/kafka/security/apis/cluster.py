"""Rights to the cluster itself: its rules, users, quotas, disks and elections."""

from __future__ import annotations

from typing import Any

from stratamq.broker.kafka.security.apis.topics import cluster_operations
from stratamq.broker.kafka.security.rights import Rights, Verdict, refused
from stratamq.model.access import Operation
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages import (
    acls,
    cluster_admin,
    quotas,
    sasl,
)
from stratamq.wire.kafka.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)

NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ELECTION_ERROR_FROM = 1


def report_in_cluster(
    request: DescribeClusterRequest, response: DescribeClusterResponse, rights: Rights
) -> None:
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(rights)


def no_rules_created(request: acls.CreateAclsRequest, code: ErrorCode) -> Any:
    one = acls.AclCreationResult(error_code=code, error_message=code.text)
    return acls.CreateAclsResponse(results=[one for _ in request.creations])


def no_rules_deleted(request: acls.DeleteAclsRequest, code: ErrorCode) -> Any:
    one = acls.DeleteAclsFilterResult(error_code=code, error_message=code.text, matching_acls=[])
    return acls.DeleteAclsResponse(filter_results=[one for _ in request.filters])


def no_users_altered(request: sasl.AlterUserScramCredentialsRequest, code: ErrorCode) -> Any:
    names = [one.name for one in request.deletions] + [one.name for one in request.upsertions]
    return sasl.AlterUserScramCredentialsResponse(
        results=[
            sasl.AlterUserScramCredentialsResult(
                user=name, error_code=code, error_message=code.text
            )
            for name in dict.fromkeys(names)
        ]
    )


def no_quotas_altered(request: quotas.AlterClientQuotasRequest, code: ErrorCode) -> Any:
    return quotas.AlterClientQuotasResponse(
        entries=[
            quotas.QuotaAlterationResult(
                error_code=code, error_message=code.text, entity=entry.entity
            )
            for entry in request.entries
        ]
    )


def not_moved(request: cluster_admin.AlterReplicaLogDirsRequest, code: ErrorCode) -> Any:
    wanted: dict[str, set[int]] = {}
    for topic in (topic for one in request.dirs for topic in one.topics):
        wanted.setdefault(topic.name, set()).update(topic.partitions)
    return cluster_admin.AlterReplicaLogDirsResponse(
        results=[
            cluster_admin.AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    cluster_admin.AlterReplicaLogDirPartitionResult(
                        partition_index=number, error_code=code
                    )
                    for number in sorted(numbers)
                ],
            )
            for name, numbers in wanted.items()
        ]
    )


def elect(request: cluster_admin.ElectLeadersRequest, rights: Rights) -> Verdict | None:
    """In version 0 there is no error but those of partitions."""
    if rights.on_cluster(Operation.ALTER):
        return None
    results = [_unelected(topic) for topic in request.topic_partitions or ()]
    response = cluster_admin.ElectLeadersResponse(replica_election_results=results)
    if rights.caller.version >= ELECTION_ERROR_FROM:
        response.error_code = NO_CLUSTER
    return refused(response)


def _unelected(topic: cluster_admin.ElectLeadersTopic) -> cluster_admin.ReplicaElectionResult:
    return cluster_admin.ReplicaElectionResult(
        topic=topic.topic,
        partition_result=[
            cluster_admin.ElectionPartitionResult(
                partition_id=one, error_code=NO_CLUSTER, error_message=NO_CLUSTER.text
            )
            for one in topic.partitions
        ],
    )
