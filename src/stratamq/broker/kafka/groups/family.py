"""Groups as a family of Kafka APIs, and FindCoordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stratamq.broker.kafka.cluster import brokers
from stratamq.broker.kafka.contract import Caller, Family, Handled, Services
from stratamq.broker.kafka.groups.admin import GroupAdminApi
from stratamq.broker.kafka.groups.classic.api import ClassicApi
from stratamq.broker.kafka.groups.classic.members import Identity
from stratamq.broker.kafka.groups.consumer.api import ConsumerApi
from stratamq.broker.kafka.groups.coordinator import (
    AllTopicsVisible,
    GroupCoordinator,
    TopicVisibility,
)
from stratamq.broker.kafka.groups.offsets.commit import (
    EPOCHS_FROM,
    OffsetCommitApi,
    OffsetDeleteApi,
    OffsetGuard,
)
from stratamq.broker.kafka.groups.offsets.fetch import OffsetFetchApi
from stratamq.broker.kafka.groups.offsets.pending import PendingOffsets
from stratamq.broker.kafka.turns import paced
from stratamq.meta.groups import CommitOffset
from stratamq.model.types import NodeId
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages import (
    consumer_groups,
    group_offsets,
    groups,
    groups_admin,
)
from stratamq.wire.kafka.protocol.messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP, TRANSACTION = 0, 1
BATCHED_FROM = 4

Address = Callable[[], tuple[str, int] | None]
"""Where clients reach this node; None: they cannot at the moment."""


class CoordinatorFinder:
    """This node coordinates everything as long as it is the only one."""

    def __init__(self, node_id: NodeId, address: Address) -> None:
        self._node_id = node_id
        self._address = address

    async def find(
        self, request: FindCoordinatorRequest, caller: Caller
    ) -> FindCoordinatorResponse:
        address = self._address()
        if caller.version >= BATCHED_FROM:
            found = [
                self._coordinator(key, request.key_type, address)
                async for key in paced(request.coordinator_keys)
            ]
            return FindCoordinatorResponse(coordinators=found)
        one = self._coordinator(request.key, request.key_type, address)
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    def _coordinator(self, key: str, key_type: int, address: tuple[str, int] | None) -> Coordinator:
        if key_type not in (GROUP, TRANSACTION):
            error, text = ErrorCode.INVALID_REQUEST, f"key type {key_type} is not known here"
        elif address is None:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            text = error.text
        else:
            host, port = address
            return Coordinator(
                key=key, node_id=self._node_id, host=host, port=port, error_message=""
            )
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=error, error_message=text
        )


class Groups(Family):
    """`address` says where clients reach this node's Kafka front, `visibility` which topics members
    that subscribe by a pattern may know of."""

    def __init__(
        self,
        services: Services,
        *,
        address: Address | None = None,
        visibility: TopicVisibility | None = None,
    ) -> None:
        self.coordinator = GroupCoordinator(services, visibility or AllTopicsVisible())
        self._services = services
        self._guard = OffsetGuard(self.coordinator)
        self._finder = CoordinatorFinder(services.node_id, address or self._registered_address)
        self._classic = ClassicApi(self.coordinator)
        self._consumer = ConsumerApi(self.coordinator)
        self._admin = GroupAdminApi(self.coordinator)
        self._commits = OffsetCommitApi(self.coordinator, self._guard)
        self._fetches = OffsetFetchApi(self.coordinator, self._guard)
        self._deletes = OffsetDeleteApi(self.coordinator)

    def handlers(self) -> Mapping[type, Handled]:
        return {
            groups.FindCoordinatorRequest: Handled(self._finder.find),
            groups.JoinGroupRequest: Handled(self._classic.join),
            groups.SyncGroupRequest: Handled(self._classic.sync),
            groups.HeartbeatRequest: Handled(self._classic.heartbeat),
            groups.LeaveGroupRequest: Handled(self._classic.leave),
            group_offsets.OffsetCommitRequest: Handled(self._commits.commit),
            group_offsets.OffsetFetchRequest: Handled(self._fetches.fetch),
            group_offsets.OffsetDeleteRequest: Handled(self._deletes.delete),
            groups_admin.DescribeGroupsRequest: Handled(self._admin.describe),
            groups_admin.ListGroupsRequest: Handled(self._admin.list),
            groups_admin.DeleteGroupsRequest: Handled(self._admin.delete),
            consumer_groups.ConsumerGroupHeartbeatRequest: Handled(self._consumer.heartbeat),
            consumer_groups.ConsumerGroupDescribeRequest: Handled(self._admin.describe_consumers),
        }

    async def start(self) -> None:
        await self.coordinator.start()

    def wake_all(self) -> None:
        """Answer requests that wait for other members: the clients retry later."""
        self.coordinator.wake_all()

    async def stop(self) -> None:
        await self.coordinator.stop()

    # -- for transactions ----------------------------------------------------------------------

    @property
    def pending(self) -> PendingOffsets:
        return self.coordinator.pending

    async def add_pending(
        self, group: str, who: Identity, producer_id: int, offsets: Sequence[CommitOffset]
    ) -> ErrorCode:
        """TxnOffsetCommit: what will be committed, unless this member may not commit at all."""
        error = await self._guard.commit_error(group, who, version=EPOCHS_FROM, transactional=True)
        if error is ErrorCode.NONE:
            await self.pending.add(group, producer_id, offsets)
        return error

    def _registered_address(self) -> tuple[str, int] | None:
        for node, host, port in brokers(self._services.meta.state):
            if node == self._services.node_id:
                return host, port
        return None
