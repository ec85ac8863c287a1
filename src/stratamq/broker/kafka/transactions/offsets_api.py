"""TxnOffsetCommit: offsets that count when, and only when, the transaction commits."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.broker.kafka.cluster import FoundShard, ShardLookup
from stratamq.broker.kafka.contract import Caller, Services
from stratamq.broker.kafka.errors import coordinator_code
from stratamq.broker.kafka.groups.classic.members import Identity
from stratamq.broker.kafka.groups.family import Groups
from stratamq.broker.kafka.transactions.api import check_id
from stratamq.broker.kafka.transactions.coordinator import TransactionCoordinator
from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.broker.kafka.turns import paced
from stratamq.meta.groups import CommitOffset, check_group_name
from stratamq.model.errors import StrataError
from stratamq.model.types import LeaderEpoch, Offset
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ABORTABLE_SINCE = 4
ADDS_SINCE = 5
"""Versions of producers that do not add the group to their transactions themselves."""

CheckedPartition = tuple[TxnOffsetCommitRequestPartition, FoundShard]


class TransactionOffsetsApi:
    def __init__(
        self, services: Services, coordinator: TransactionCoordinator, groups: Groups
    ) -> None:
        self._services = services
        self._coordinator = coordinator
        self._groups = groups

    async def commit(
        self, request: TxnOffsetCommitRequest, caller: Caller
    ) -> TxnOffsetCommitResponse:
        lookup = ShardLookup(self._services.broker_cache, by_id=False)
        found: list[tuple[str, list[CheckedPartition]]] = []
        for topic in request.topics:
            known = lookup.topic(topic.name, NO_UUID)
            some = [
                (one, self._checked(one, lookup.shard(known, one.partition_index)))
                async for one in paced(topic.partitions)
            ]
            found.append((topic.name, some))
        entries = [
            CommitOffset(
                shard=checked.shard,
                offset=Offset(one.committed_offset),
                metadata=one.committed_metadata or "",
                leader_epoch=LeaderEpoch(one.committed_leader_epoch),
            )
            for _, some in found
            for one, checked in some
            if checked.shard is not None
        ]
        code = await self._commit(request, entries, caller.version)
        return TxnOffsetCommitResponse(
            topics=[await _topic_result(name, some, code) for name, some in found]
        )

    def _checked(self, one: TxnOffsetCommitRequestPartition, found: FoundShard) -> FoundShard:
        metadata = (one.committed_metadata or "").encode("utf-8", "surrogatepass")
        if found.error:
            return found
        if len(metadata) > self._services.config.number("offset.metadata.max.bytes"):
            return FoundShard(None, ErrorCode.OFFSET_METADATA_TOO_LARGE)
        return FoundShard(None, ErrorCode.INVALID_REQUEST) if one.committed_offset < 0 else found

    async def _commit(
        self, request: TxnOffsetCommitRequest, entries: Sequence[CommitOffset], version: int
    ) -> ErrorCode:
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        member = Identity(request.member_id, request.group_instance_id, request.generation_id)
        transactional_id, group = request.transactional_id, request.group_id
        try:
            check_id(transactional_id)
            check_group_name(group)
            if version >= ADDS_SINCE:
                await self._coordinator.add(transactional_id, producer, groups=[group])
            return await self._coordinator.within(
                transactional_id,
                producer,
                group,
                lambda: self._groups.add_pending(group, member, producer.producer_id, entries),
            )
        except StrataError as error:
            code = coordinator_code(error)
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.INVALID_TXN_STATE and version >= ABORTABLE_SINCE:
            return ErrorCode.TRANSACTION_ABORTABLE
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE  # older producers retry after this one
        return code


async def _topic_result(
    name: str, some: Sequence[CheckedPartition], code: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=name,
        partitions=[
            TxnOffsetCommitResponsePartition(
                partition_index=one.partition_index, error_code=checked.error or code
            )
            async for one, checked in paced(some)
        ],
    )
