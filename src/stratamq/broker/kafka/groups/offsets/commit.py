"""OffsetCommit and OffsetDelete, and who may commit."""

from __future__ import annotations

from stratamq.broker.kafka.cluster import ShardLookup
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.errors import code_of, coordinator_code
from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import Identity
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.group_state import subscribed_topics
from stratamq.broker.kafka.turns import paced
from stratamq.meta.groups import CommitOffset, check_group_name
from stratamq.model.errors import InvalidName, NotFound, StrataError
from stratamq.model.types import LeaderEpoch, Offset, ShardName
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

EPOCHS_FROM = 9
"""OffsetCommit and OffsetFetch versions from which on a member epoch is meant."""

IDS_FROM = 10
"""OffsetCommit versions that name topics by id."""


class OffsetGuard:
    """Says which members may commit and fetch the offsets of a group."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    async def commit_error(
        self, name: str, who: Identity, *, version: int, transactional: bool = False
    ) -> ErrorCode:
        """For OffsetCommit, and for TxnOffsetCommit with `transactional` (any version will do)."""
        try:
            check_group_name(name)
        except InvalidName:
            return ErrorCode.INVALID_GROUP_ID
        state = self._coordinator.find(name)
        if state is None:
            if who.generation < 0:
                return ErrorCode.NONE  # a consumer that assigns partitions to itself
            by_epoch = version >= EPOCHS_FROM and not transactional
            return ErrorCode.GROUP_ID_NOT_FOUND if by_epoch else ErrorCode.ILLEGAL_GENERATION

        def check(now_ms: int) -> ErrorCode:
            group = state.group
            if isinstance(group, ClassicGroup):
                return group.commit_error(now_ms, who, transactional=transactional)
            epochs = version >= EPOCHS_FROM
            return group.commit_error(now_ms, who, epochs=epochs, transactional=transactional)

        try:
            return await state.run(check)
        except StrataError as error:
            return coordinator_code(error)

    def fetch_error(self, name: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Members that name themselves get an answer only while they are members."""
        state = self._coordinator.find(name)
        if state is None or isinstance(state.group, ClassicGroup):
            return ErrorCode.NONE
        return state.group.fetch_error(member_id, epoch)


class OffsetCommitApi:
    def __init__(self, coordinator: GroupCoordinator, guard: OffsetGuard) -> None:
        self._coordinator = coordinator
        self._guard = guard

    async def commit(self, request: OffsetCommitRequest, caller: Caller) -> OffsetCommitResponse:
        cache = self._coordinator.services.broker_cache
        lookup = ShardLookup(cache, by_id=caller.version >= IDS_FROM)
        entries: list[CommitOffset] = []
        topics = [await self._topic(topic, lookup, entries) for topic in request.topics]
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
        self, topic: OffsetCommitRequestTopic, lookup: ShardLookup, entries: list[CommitOffset]
    ) -> OffsetCommitResponseTopic:
        """The answer if all goes well; what has to be stored for it is added to `entries`."""
        known = lookup.topic(topic.name, topic.topic_id)
        answers = []
        async for partition in paced(topic.partitions):
            found = lookup.shard(known, partition.partition_index)
            error = found.error or self._entry_error(partition)
            answers.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
            if not error and found.shard is not None:
                entries.append(
                    CommitOffset(
                        shard=found.shard,
                        offset=Offset(partition.committed_offset),
                        metadata=partition.committed_metadata or "",
                        leader_epoch=LeaderEpoch(partition.committed_leader_epoch),
                    )
                )
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
            return coordinator_code(error)
        return ErrorCode.NONE


class OffsetDeleteApi:
    """OffsetDelete: forget what a group committed for topics that it does not read."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    async def delete(self, request: OffsetDeleteRequest, caller: Caller) -> OffsetDeleteResponse:
        name = request.group_id
        try:
            used = await self._used_topics(name)
            if isinstance(used, ErrorCode):
                return OffsetDeleteResponse(error_code=used, topics=[])
            shards: list[ShardName] = []
            topics = [
                await self._topic(topic, used, shards) async for topic in paced(request.topics)
            ]
            if shards:
                await self._coordinator.services.offsets.delete(name, shards)
        except StrataError as error:
            return OffsetDeleteResponse(error_code=coordinator_code(error), topics=[])
        return OffsetDeleteResponse(topics=topics)

    async def _used_topics(self, name: str) -> frozenset[str] | ErrorCode:
        """The topics whose offsets the group still needs, or why none can be deleted."""
        state = self._coordinator.find(name)
        if state is None:
            known = await self._coordinator.services.offsets.has_group(name)
            return frozenset() if known else ErrorCode.GROUP_ID_NOT_FOUND
        if state.group.state == "Empty":
            return frozenset()
        topics = subscribed_topics(state.group)
        return ErrorCode.NON_EMPTY_GROUP if topics is None else topics

    async def _topic(
        self, topic: OffsetDeleteRequestTopic, used: frozenset[str], shards: list[ShardName]
    ) -> OffsetDeleteResponseTopic:
        lookup = ShardLookup(self._coordinator.services.broker_cache, by_id=False)
        known = lookup.topic(topic.name, NO_UUID)
        answers = []
        async for partition in paced(topic.partitions):
            found = lookup.shard(known, partition.partition_index)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic.name in used else found.error
            if found.shard is not None and not error:
                shards.append(found.shard)
            answers.append(
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
        return OffsetDeleteResponseTopic(name=topic.name, partitions=answers)
