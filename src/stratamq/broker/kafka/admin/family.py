"""The administrators' APIs, put together."""

from __future__ import annotations

from collections.abc import Mapping

from stratamq.broker.kafka.admin.configs.alter import AlterConfigs
from stratamq.broker.kafka.admin.configs.describe import DescribeConfigs
from stratamq.broker.kafka.admin.create import CreatePartitions, CreateTopics
from stratamq.broker.kafka.admin.delete import (
    DeleteRecords,
    DeleteSelectedRecords,
    DeleteTopics,
)
from stratamq.broker.kafka.admin.leaders import Leaders
from stratamq.broker.kafka.admin.log_dirs import LogDirs
from stratamq.broker.kafka.admin.quorum import Quorum
from stratamq.broker.kafka.admin.task_pool import TaskPool
from stratamq.broker.kafka.api_versions import update_features
from stratamq.broker.kafka.contract import Family, Handled, Services
from stratamq.broker.kafka.groups.limits import GroupConfigs
from stratamq.wire.kafka.protocol.messages import (
    cluster_admin,
    configs,
    log_offsets,
    quorum,
    topics,
)
from stratamq.wire.kafka.protocol.messages.cluster_admin import AlterPartitionReassignmentsRequest


class Admin(Family):
    """The family of everything that changes or describes topics, configs and the cluster."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tasks = TaskPool()

    def handlers(self) -> Mapping[type, Handled]:
        return {**self._of_topics(), **self._of_configs(), **self._of_cluster()}

    async def stop(self) -> None:
        await self._tasks.stop()

    def _of_topics(self) -> Mapping[type, Handled]:
        services, tasks = self._services, self._tasks
        return {
            topics.CreateTopicsRequest: Handled(CreateTopics(services, tasks).create),
            topics.DeleteTopicsRequest: Handled(DeleteTopics(services, tasks).delete),
            topics.CreatePartitionsRequest: Handled(CreatePartitions(services, tasks).create),
            log_offsets.DeleteRecordsRequest: Handled(DeleteRecords(services, tasks).delete),
            log_offsets.DeleteSelectedRecordsRequest: Handled(
                DeleteSelectedRecords(services, tasks).delete
            ),
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
        disks, voters = LogDirs(services), Quorum(services)
        return {
            cluster_admin.DescribeLogDirsRequest: Handled(disks.describe),
            cluster_admin.AlterReplicaLogDirsRequest: Handled(disks.alter),
            cluster_admin.ElectLeadersRequest: Handled(leaders.elect),
            cluster_admin.ListPartitionReassignmentsRequest: Handled(leaders.list_reassignments),
            AlterPartitionReassignmentsRequest: Handled(leaders.reassign),
            quorum.DescribeQuorumRequest: Handled(voters.describe),
            quorum.UnregisterBrokerRequest: Handled(voters.unregister),
            quorum.UpdateFeaturesRequest: Handled(update_features),
        }
