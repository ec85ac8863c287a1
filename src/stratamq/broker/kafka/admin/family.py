"""The administrators' APIs, put together."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.admin.alter_configs import AlterConfigs
from stratamq.broker.kafka.admin.create_partitions import CreatePartitions
from stratamq.broker.kafka.admin.create_topics import CreateTopics
from stratamq.broker.kafka.admin.deadline import Workshop
from stratamq.broker.kafka.admin.delete_records import DeleteRecords
from stratamq.broker.kafka.admin.delete_topics import DeleteTopics
from stratamq.broker.kafka.admin.describe_cluster import DescribeCluster
from stratamq.broker.kafka.admin.describe_configs import DescribeConfigs
from stratamq.broker.kafka.admin.features import update_features
from stratamq.broker.kafka.admin.leaders import Leaders
from stratamq.broker.kafka.admin.log_dirs import LogDirs
from stratamq.broker.kafka.admin.quorum import Quorum
from stratamq.broker.kafka.admin.topic_partitions import DescribeTopicPartitions
from stratamq.broker.kafka.contract import Family, Handled, Services
from stratamq.broker.kafka.groups.configs import GroupConfigs
from stratamq.wire.kafka.protocol.messages import (
    cluster_admin,
    configs,
    log_offsets,
    quorum,
    topics,
)
from stratamq.wire.kafka.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
)
from stratamq.wire.kafka.protocol.messages.reassignments import AlterPartitionReassignmentsRequest


class Admin(Family):
    """The family of everything that changes or describes topics, configs and the cluster."""

    def __init__(self, services: Services, cluster_id: str) -> None:
        self._services, self._cluster_id = services, cluster_id
        self._workshop = Workshop()

    def handlers(self) -> Mapping[type, Handled]:
        return {**self._of_topics(), **self._of_configs(), **self._of_cluster()}

    async def stop(self) -> None:
        await self._workshop.stop()

    def _of_topics(self) -> Mapping[type, Handled]:
        services, workshop = self._services, self._workshop
        return {
            topics.CreateTopicsRequest: Handled(CreateTopics(services, workshop).create),
            topics.DeleteTopicsRequest: Handled(DeleteTopics(services, workshop).delete),
            topics.CreatePartitionsRequest: Handled(CreatePartitions(services, workshop).create),
            log_offsets.DeleteRecordsRequest: Handled(DeleteRecords(services, workshop).delete),
            DescribeTopicPartitionsRequest: Handled(DescribeTopicPartitions(services).describe),
        }

    def _of_configs(self) -> Mapping[type, Handled]:
        groups = GroupConfigs(self._services)
        describe = DescribeConfigs(self._services, groups)
        alter = AlterConfigs(self._services, groups)
        return {
            configs.DescribeConfigsRequest: Handled(describe.describe),
            configs.ListConfigResourcesRequest: Handled(describe.resources),
            configs.AlterConfigsRequest: Handled(alter.replace),
            configs.IncrementalAlterConfigsRequest: Handled(alter.increment),
        }

    def _of_cluster(self) -> Mapping[type, Handled]:
        services, leaders = self._services, Leaders(self._services)
        cluster, disks = DescribeCluster(services, self._cluster_id), LogDirs(services)
        voters = Quorum(services)
        return {
            DescribeClusterRequest: Handled(cluster.describe),
            cluster_admin.DescribeLogDirsRequest: Handled(disks.describe),
            cluster_admin.AlterReplicaLogDirsRequest: Handled(disks.alter),
            cluster_admin.ElectLeadersRequest: Handled(leaders.elect),
            cluster_admin.ListPartitionReassignmentsRequest: Handled(leaders.list_reassignments),
            AlterPartitionReassignmentsRequest: Handled(leaders.reassign),
            quorum.DescribeQuorumRequest: Handled(voters.describe),
            quorum.UnregisterBrokerRequest: Handled(voters.unregister),
            quorum.UpdateFeaturesRequest: Handled(update_features),
        }
