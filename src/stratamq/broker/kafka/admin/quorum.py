"""The Meta Service as Kafka's tools look at it: a quorum, and the brokers registered with it."""

from __future__ import annotations

from stratamq.broker.kafka import cluster
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.meta.state import MetaState
from stratamq.model.types import NodeId
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    QuorumPartitionResult,
    QuorumReplica,
    QuorumTopicResult,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

METADATA_TOPIC = "__cluster_metadata"
FIRST_EPOCH = 1
"""There is one Meta Service, and no other has ever led."""


class Quorum:
    """One voter, the node with the Meta Service; other live nodes observe. The revision of the
    metadata stands for the end of its log: what a client can see of it is committed."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def describe(
        self, request: DescribeQuorumRequest, caller: Caller
    ) -> DescribeQuorumResponse:
        """There is one partition to ask about; an answer never has more."""
        state = self._services.meta.state
        asked = [
            (one.topic_name, part.partition_index)
            for one in request.topics
            for part in one.partitions
        ]
        if len(asked) != 1:
            return DescribeQuorumResponse(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"ask for partition 0 of {METADATA_TOPIC} alone",
                topics=[],
            )
        topic, partition = asked[0]
        return DescribeQuorumResponse(
            topics=[
                QuorumTopicResult(
                    topic_name=topic, partitions=[self._partition(state, topic, partition)]
                )
            ],
            nodes=[
                QuorumNode(
                    node_id=node,
                    listeners=[QuorumListener(name="CONTROLLER", host=host, port=port)],
                )
                for node, host, port in cluster.brokers(state)
                if node == self._services.node_id
            ],
        )

    def _partition(self, state: MetaState, topic: str, partition: int) -> QuorumPartitionResult:
        if (topic, partition) != (METADATA_TOPIC, 0):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return QuorumPartitionResult(
                partition_index=partition, error_code=code, error_message=code.text
            )
        voter = self._services.node_id
        return QuorumPartitionResult(
            partition_index=0,
            leader_id=voter,
            leader_epoch=FIRST_EPOCH,
            high_watermark=state.revision,
            current_voters=[self._replica(state, voter)],
            observers=[self._replica(state, node) for node in state.live_nodes() if node != voter],
        )

    def _replica(self, state: MetaState, node: NodeId) -> QuorumReplica:
        now_ms = self._services.clock.now_ms()
        return QuorumReplica(
            replica_id=node,
            log_end_offset=state.revision,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )

    async def unregister(
        self, request: UnregisterBrokerRequest, caller: Caller
    ) -> UnregisterBrokerResponse:
        """Kafka also forgets a broker that is live and leads partitions; that is refused here."""
        broker = NodeId(request.broker_id)
        if broker in self._services.meta.state.nodes:
            return UnregisterBrokerResponse(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"broker {broker} holds replicas: it cannot be unregistered",
            )
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {broker} is not currently registered",
        )
