"""DescribeCluster: who is in it."""

from __future__ import annotations

from stratamq.broker.kafka import cluster
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2
_REFUSALS = {CONTROLLERS: ErrorCode.MISMATCHED_ENDPOINT_TYPE}


class DescribeCluster:
    def __init__(self, services: Services, cluster_id: str) -> None:
        self._services, self._cluster_id = services, cluster_id

    async def describe(
        self, request: DescribeClusterRequest, caller: Caller
    ) -> DescribeClusterResponse:
        if request.endpoint_type != BROKERS:
            return self._refused(request.endpoint_type)
        state = self._services.meta.state
        known = cluster.brokers(state)
        if request.include_fenced_brokers:
            known = cluster.all_brokers(state)
        return DescribeClusterResponse(
            cluster_id=self._cluster_id,
            controller_id=cluster.controller(state),
            brokers=[
                DescribeClusterBroker(
                    broker_id=node, host=host, port=port, is_fenced=not state.nodes[node].live
                )
                for node, host, port in known
            ],
        )

    def _refused(self, endpoint: int) -> DescribeClusterResponse:
        """Controllers have no address of their own here."""
        code = _REFUSALS.get(endpoint, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
        return DescribeClusterResponse(
            error_code=code,
            error_message=code.text,
            endpoint_type=endpoint,
            cluster_id=self._cluster_id,
            brokers=[],
        )
