"""OffsetCommit."""

from __future__ import annotations

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.groups.classic.members import Identity
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.failures import group_code
from stratamq.broker.kafka.groups.offsets.members import OffsetGuard
from stratamq.broker.kafka.groups.offsets.places import Places
from stratamq.broker.kafka.turns import paced
from stratamq.meta.groups import CommitOffset
from stratamq.model.errors import NotFound, StrataError
from stratamq.model.types import LeaderEpoch, Offset, ShardName
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

IDS_FROM = 10


class CommitApi:
    def __init__(self, coordinator: GroupCoordinator, guard: OffsetGuard) -> None:
        self._coordinator = coordinator
        self._guard = guard

    async def commit(self, request: OffsetCommitRequest, caller: Caller) -> OffsetCommitResponse:
        cache = self._coordinator.services.broker_cache
        places = Places(cache, by_id=caller.version >= IDS_FROM)
        entries: list[CommitOffset] = []
        topics = [await self._topic(topic, places, entries) for topic in request.topics]
        who = Identity(
            request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
        )
        # Asked last, so that nothing comes between this and the commit.
        refusal = await self._guard.commit_error(request.group_id, who, version=caller.version)
        failure = refusal or await self._store(request.group_id, entries)
        if failure is not ErrorCode.NONE:
            for topic in topics:
                async for partition in paced(topic.partitions):
                    partition.error_code = refusal or partition.error_code or failure
        return OffsetCommitResponse(topics=topics)

    async def _topic(
        self, topic: OffsetCommitRequestTopic, places: Places, entries: list[CommitOffset]
    ) -> OffsetCommitResponseTopic:
        """The answer if all goes well; what has to be stored for it is added to `entries`."""
        known = places.topic(topic.name, topic.topic_id)
        answers = []
        async for partition in paced(topic.partitions):
            place = places.place(known, partition.partition_index)
            error = place.error or self._entry_error(partition)
            answers.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
            if not error and place.shard is not None:
                entries.append(_entry(place.shard, partition))
        return OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=answers
        )

    def _entry_error(self, partition: OffsetCommitRequestPartition) -> ErrorCode:
        metadata = (partition.committed_metadata or "").encode("utf-8", "surrogatepass")
        if len(metadata) > self._coordinator.limits.metadata_bytes_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        negative = partition.committed_offset < 0
        return ErrorCode.INVALID_REQUEST if negative else ErrorCode.NONE

    async def _store(self, group: str, entries: list[CommitOffset]) -> ErrorCode:
        if not entries:
            return ErrorCode.NONE
        try:
            await self._coordinator.services.offsets.commit(group, entries)
        except NotFound as error:  # a topic was deleted meanwhile
            return code_of(error)
        except StrataError as error:
            return group_code(error)
        return ErrorCode.NONE


def _entry(shard: ShardName, partition: OffsetCommitRequestPartition) -> CommitOffset:
    return CommitOffset(
        shard=shard,
        offset=Offset(partition.committed_offset),
        metadata=partition.committed_metadata or "",
        leader_epoch=LeaderEpoch(partition.committed_leader_epoch),
    )
