"""Groups as a family of Kafka APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stratamq.broker.kafka.cluster import brokers
from stratamq.broker.kafka.contract import Family, Handled, Services
from stratamq.broker.kafka.groups.admin import AdminApi
from stratamq.broker.kafka.groups.classic.api import ClassicApi
from stratamq.broker.kafka.groups.classic.members import Identity
from stratamq.broker.kafka.groups.consumer.api import ConsumerApi
from stratamq.broker.kafka.groups.coordinator import EverythingInSight, GroupCoordinator, Sight
from stratamq.broker.kafka.groups.finding import Address, Finder
from stratamq.broker.kafka.groups.offsets.committing import CommitApi
from stratamq.broker.kafka.groups.offsets.deleting import DeleteApi
from stratamq.broker.kafka.groups.offsets.fetching import FetchApi
from stratamq.broker.kafka.groups.offsets.members import EPOCHS_FROM, OffsetGuard
from stratamq.broker.kafka.groups.pending import PendingOffsets
from stratamq.meta.groups import CommitOffset
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages import (
    consumer_groups,
    group_offsets,
    groups,
    groups_admin,
)


class Groups(Family):
    """A `Family`. `address` says where clients reach this node's Kafka front, `sight` which topics
    members that subscribe by a pattern may know of."""

    def __init__(
        self, services: Services, *, address: Address | None = None, sight: Sight | None = None
    ) -> None:
        self.coordinator = GroupCoordinator(services, sight or EverythingInSight())
        self._services = services
        self._guard = OffsetGuard(self.coordinator)
        self._finder = Finder(services.node_id, address or self._registered_address)
        self._classic = ClassicApi(self.coordinator)
        self._consumer = ConsumerApi(self.coordinator)
        self._admin = AdminApi(self.coordinator)
        self._commits = CommitApi(self.coordinator, self._guard)
        self._fetches = FetchApi(self.coordinator, self._guard)
        self._deletes = DeleteApi(self.coordinator)

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
            consumer_groups.ConsumerGroupDescribeRequest: Handled(self._consumer.describe),
        }

    async def start(self) -> None:
        await self.coordinator.start()

    def wake_all(self) -> None:
        """Whoever waits for other members is told to come back later."""
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
        known = brokers(self._services.meta.state)
        mine = (one for one in known if one.node_id == self._services.node_id)
        me = next(mine, None)
        return None if me is None else (me.host, me.port)
