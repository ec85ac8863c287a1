"""ElectLeaders, and the APIs that move replicas."""

from __future__ import annotations

from stratamq.broker.kafka.cluster import active_segment
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import ApiError, Refused, api_error
from stratamq.broker.kafka.turns import paced
from stratamq.meta.segments import SegmentMeta
from stratamq.model.errors import StrataError
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.cluster_admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)

PREFERRED = 0
UNCLEAN = 1


class Leaders:
    def __init__(self, services: Services) -> None:
        self._services = services

    # -- elections -----------------------------------------------------------------------------

    async def elect(self, request: ElectLeadersRequest, caller: Caller) -> ElectLeadersResponse:
        """Null stands for all partitions; then those that need no election are left out."""
        if request.election_type not in (PREFERRED, UNCLEAN):
            return ElectLeadersResponse(
                error_code=ErrorCode.INVALID_REQUEST, replica_election_results=[]
            )
        everything = request.topic_partitions is None
        results = []
        topics = request.topic_partitions
        if topics is None:
            topics = [
                ElectLeadersTopic(topic=topic.name, partitions=range(topic.partitions))
                for topic in self._services.broker_cache.topics()
            ]
        for topic in topics:
            each = [
                self._elected(topic.topic, number, request.election_type)
                async for number in paced(topic.partitions)
            ]
            if everything:
                each = [one for one in each if one.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            if each:
                results.append(ReplicaElectionResult(topic=topic.topic, partition_result=each))
        return ElectLeadersResponse(replica_election_results=results)

    def _elected(self, name: str, partition: int, kind: int) -> ElectionPartitionResult:
        try:
            code, message = election(self._segment(name, partition), kind)
        except StrataError as error:
            code, message = api_error(error)
        return ElectionPartitionResult(
            partition_id=partition, error_code=code, error_message=message
        )

    def _segment(self, name: str, partition: int) -> SegmentMeta:
        topic = self._services.broker_cache.topic(name)
        segment = active_segment(self._services.storage_cache, topic, partition)
        if segment is None or not 0 <= partition < topic.partitions:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return segment

    # -- moves ---------------------------------------------------------------------------------

    async def list_reassignments(
        self, request: ListPartitionReassignmentsRequest, caller: Caller
    ) -> ListPartitionReassignmentsResponse:
        """Always empty: each new segment is placed again, and older ones do not move."""
        return ListPartitionReassignmentsResponse(topics=[])

    async def reassign(
        self, request: AlterPartitionReassignmentsRequest, caller: Caller
    ) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            responses=[
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        self._reassigned(topic.name, one) async for one in paced(topic.partitions)
                    ],
                )
                async for topic in paced(request.topics)
            ]
        )

    def _reassigned(self, name: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
        try:
            code, message = reassignment(self._segment(name, asked.partition_index), asked.replicas)
        except StrataError as error:
            code, message = api_error(error)
        return ReassignablePartitionResponse(
            partition_index=asked.partition_index, error_code=code, error_message=message or None
        )


def election(segment: SegmentMeta, kind: int) -> ApiError:
    """The preferred leader is the first replica. An unclean election is for partitions without any
    leader."""
    needed = segment.leader is None or (kind == PREFERRED and segment.leader != segment.replicas[0])
    if not needed:
        code = ErrorCode.ELECTION_NOT_NEEDED
    elif kind == PREFERRED:
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    return ApiError(code, code.text)


def reassignment(segment: SegmentMeta, replicas: object) -> ApiError:
    """Null cancels a move. To ask for the replicas that the partition has is no error."""
    if replicas is None:
        code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        return ApiError(code, code.text)
    if replicas == list(segment.replicas):
        return ApiError(ErrorCode.NONE, "")
    return ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"replicas are on {list(segment.replicas)} and are not moved: "
        "each new segment is placed on the least loaded nodes",
    )
